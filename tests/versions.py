"""Marks of tests that need more than the oldest versions that the plugin works with."""

import pytest

from skiprnn_plugin._fairseq import backports


def not_in_fairseq_0_12_2(reason):
    return pytest.mark.skipif(backports.are_needed(), reason=f"fairseq 0.12.2: {reason}")
