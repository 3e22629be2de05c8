"""The ``indexed`` engine: plain torch, one iteration per update instead of one per step, with its own backward."""
