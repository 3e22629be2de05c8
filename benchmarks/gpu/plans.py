"""Makes the engine run with a given plan instead of the one that its policy chooses."""

from contextlib import contextmanager
from unittest import mock


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


@contextmanager
def little_memory(engine: str):
    """Within it, the engine works as if memory were short: on up to 16 sequences at a time, and with the records of one
    update after the other. It does nothing for another engine than ``triton``."""
    if engine != "triton":
        yield
        return
    from skiprnn_plugin.ops.triton import call, forward

    with mock.patch.object(forward, "RECORD_BYTES", 1), mock.patch.object(call, "room", lambda x: 1):
        yield
