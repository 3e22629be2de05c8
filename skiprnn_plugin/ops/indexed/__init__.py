"""The ``indexed`` engine: one iteration per update, not per time step, in plain torch, with its own backward."""
