"""Makes the engine run with a given plan instead of the one that its policy chooses."""

from contextlib import contextmanager
from typing import Optional
from unittest import mock


@contextmanager
def force_plan(engine: str, rows: Optional[int] = None, warps: Optional[int] = None):
    """Within it, each program works through ``rows`` sequences with ``warps`` warps; None leaves the policy's choice.
    It does nothing for another engine than ``triton``."""
    if engine != "triton" or (rows is None and warps is None):
        yield
        return
    from skiprnn_plugin.ops.triton import policy

    choose = policy.choose

    def choose_so(call):
        plan = choose(call)
        return plan._replace(rows=rows or plan.rows, warps=warps or plan.warps)

    with mock.patch.object(policy, "choose", choose_so):
        yield
