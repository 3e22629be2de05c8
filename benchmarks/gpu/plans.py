"""Makes the engine run with a given plan instead of the one that its policy chooses."""

from contextlib import contextmanager


@contextmanager
def force_plan(engine: str, **fields):
    """Within it, plans have these fields (of :class:`skiprnn_plugin.ops.triton.policy.Plan`) where they are not None.
    It does nothing for another engine than ``triton``."""
    fields = {name: value for name, value in fields.items() if value is not None}
    if engine != "triton" or not fields:
        yield
        return
    from skiprnn_plugin.ops.triton import policy

    with policy.forced(**fields):
        yield
