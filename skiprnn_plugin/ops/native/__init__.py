"""The ``native`` engine: by update, as ``indexed``, fused, in C++ behind the C interface of ``skiprnn.h``.

``library.py`` loads it, ``packing.py`` keeps the weights in its layout, and ``engine.py`` calls it.
"""
