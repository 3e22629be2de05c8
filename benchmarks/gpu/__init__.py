"""What a CUDA device says about the ``triton`` engine, in a few minutes: ``python -m benchmarks.gpu``.

``__main__`` runs the phases one after the other, each in processes of its own (``worker``), so that an error or a
kernel that never ends costs one item of one phase. A phase is a module with ``list_items`` and ``run_item``.
"""
