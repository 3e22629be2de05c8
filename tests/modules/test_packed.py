"""Packed sequences are read and returned as by torch's modules."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from skiprnn_plugin.modules import SkipGRU

from ..compare import assert_close, assert_equal
from .builders import every_module

both_directions = pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
every_order = pytest.mark.parametrize(
    "lengths, enforce_sorted", [([7, 4, 4, 1], True), ([4, 7, 1, 4], False)], ids=["sorted", "unsorted"]
)


@every_module
@every_order
@both_directions
@pytest.mark.parametrize("batch_first", [True, False], ids=["batch-first", "time-first"])
def test_equals_padded_sequences(module, lengths, enforce_sorted, bidirectional, batch_first):
    torch.manual_seed(0)
    rnn = module(3, 5, 2, batch_first, bidirectional=bidirectional, update_bias=0.0).double()
    x = torch.randn(4, 7, 3, dtype=torch.float64)
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=enforce_sorted)
    output, state, updates = rnn(packed)
    expected, expected_state, expected_updates = rnn(x if batch_first else x.transpose(0, 1), lengths=lengths)
    padded, got_lengths = pad_packed_sequence(output, batch_first=batch_first)
    assert got_lengths.tolist() == lengths
    assert_close(padded, expected, "output")
    assert_equal(updates, expected_updates, "updates")
    for got, value in zip(state, expected_state):
        if value is not None:
            assert_close(got, value, "state")
    assert_close(rnn(packed, last_only=True)[0], rnn(x if batch_first else x.transpose(0, 1), None, lengths,
        last_only=True)[0], "last output")  # fmt: skip


@every_order
def test_packing_is_torchs(lengths, enforce_sorted):
    peer = nn.GRU(3, 5).double()
    rnn = SkipGRU(3, 5, gate=False).double()
    rnn.load_state_dict(peer.state_dict(), strict=False)
    packed = pack_padded_sequence(torch.randn(7, 4, 3, dtype=torch.float64), lengths, enforce_sorted=enforce_sorted)
    output, state, _ = rnn(packed)
    expected, final = peer(packed, rnn.initial_h.expand(1, 4, 5).contiguous())
    for name in ("data", "batch_sizes", "sorted_indices", "unsorted_indices"):
        got, value = getattr(output, name), getattr(expected, name)
        assert_close(got, value, name) if name == "data" else assert_equal(got, value, name)
    assert_close(state.h, final, "h")


@pytest.mark.parametrize("extra", [{"lengths": [2, 2]}, {"padding_mask": torch.zeros(2, 3, dtype=torch.bool)}], ids=str)
def test_lengths_beside_packed_sequences(extra):
    with pytest.raises(ValueError, match="^x: packed sequences contain their lengths"):
        SkipGRU(3, 5)(pack_padded_sequence(torch.zeros(3, 2, 3), [3, 2]), **extra)
