"""The ``triton`` engine: by update, as ``indexed``, with the loop over updates inside of the kernels."""
