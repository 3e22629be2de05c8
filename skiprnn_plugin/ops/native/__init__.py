"""The ``native`` engine: fused C++ kernels behind the C interface that ``skiprnn.h`` describes. Like ``indexed``, it
goes from update to update.

``library.py`` loads the library, ``packing.py`` keeps the weights in the library's layout, ``areas.py`` lends large
areas of memory, and ``engine.py`` calls the library.
"""
