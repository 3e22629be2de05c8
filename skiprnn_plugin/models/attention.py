"""fairseq's LSTM decoder, attending to outputs of which equal ones that follow one another are a single entry.

A skipped step repeats the output before it. In fairseq's attention n equal outputs h with the score s have the weight
n exp(s) together, which is exp(s + log n): that of one entry h with the score s + log n. So the decoder reads the same
context from a memory that is as long as the updates.
"""

from typing import NamedTuple, Optional

import torch
from fairseq.models.lstm import AttentionLayer, LSTMDecoder
from torch import Tensor


class EncoderOut(NamedTuple):
    """What the encoder returns; the decoder can attend to K entries. The first four fields are those of fairseq's LSTM
    encoder, so that a plain ``LSTMDecoder`` can read them where every step is an entry.

    Attributes:
        outputs: [K, B, C], where C is the number of units, twice as many with two directions.
        hiddens: the last state of each layer, [L, B, C].
        cells: the last cell state of each layer, [L, B, C].
        padding_mask: True where there is no entry, bool [K, B].
        bias: what is added to the score of each entry, float32 [K, B]; the lowest number where there is no entry.
        entries: the entry that holds each step of the source, int64 [T, B]; None if step t is entry t.
        shares: the part of its entry's attention that each step gets, float32 [T, B]; None if step t is entry t.
    """

    outputs: Tensor
    hiddens: Tensor
    cells: Tensor
    padding_mask: Tensor
    bias: Tensor
    entries: Optional[Tensor] = None
    shares: Optional[Tensor] = None


class Memory(NamedTuple):
    """Which steps the entries of a memory stand for; K is the largest number of entries of a sequence.

    Attributes:
        begins: the first step of each entry, int64 [B, K].
        lengths: the number of steps of each entry, int64 [B, K]; 0 where there is no entry.
        entries: the entry of each step, int64 [B, T]; undefined at padding.
    """

    begins: Tensor
    lengths: Tensor
    entries: Tensor


def find_repeats(updates: Tensor, padding_mask: Tensor) -> Memory:
    """Sort the steps into entries, within which the outputs are equal.

    Args:
        updates: 1 where a step was updated, [B, directions, T]. Forwards the output changes at an update. Backwards,
            where a step that was not updated repeats the output of the step after it, the output changes after an
            update.
        padding_mask: True at padding, left or right of each sequence, bool [B, T].
    """
    real = ~padding_mask
    forward, *backward = updates.unbind(1)
    starts = forward > 0
    for changes in backward:
        starts[:, 1:] |= changes[:, :-1] > 0
    starts[:, 1:] |= padding_mask[:, :-1]
    starts[:, :1] = True
    starts &= real
    batch, steps = starts.shape
    entries = (starts.cumsum(1) - 1).clamp(min=0)
    size = max(int(starts.sum(1).max()), 1) if starts.numel() else 0
    lengths = entries.new_zeros(batch, size).scatter_add_(1, entries, real.long())
    # the steps that do not start an entry are put into a column that is cut off
    begins = entries.new_zeros(batch, size + 1)
    begins.scatter_(1, entries.masked_fill(~starts, size), torch.arange(steps, device=entries.device).expand(batch, -1))
    return Memory(begins[:, :size], lengths, entries)


class BiasedAttention(AttentionLayer):
    """fairseq's attention with a number added to each score. The parameters are the same."""

    def forward(self, input: Tensor, source_hids: Tensor, bias: Tensor):
        """Attend to entries.

        Args:
            input: the decoder's state, [B, H].
            source_hids: the entries, [K, B, C].
            bias: what is added to their scores, float32 [K, B].

        Returns:
            The state and the context joined, [B, H], and the attention, [K, B].
        """
        scores = torch.einsum("kbc,bc->kb", source_hids, self.input_proj(input))
        attention = torch.softmax(scores.float() + bias, 0).type_as(scores)
        context = torch.einsum("kb,kbc->bc", attention, source_hids)
        return self.output_proj(torch.cat([context, input], 1)).tanh(), attention


class EntryDecoder(LSTMDecoder):
    """fairseq's LSTM decoder for an :class:`EncoderOut`; arguments and parameters are the same."""

    def __init__(self, dictionary, *, attention: bool = True, **options):
        super().__init__(dictionary, attention=False, **options)
        if attention:
            self.attention = BiasedAttention(self.hidden_size, self.encoder_output_units, self.hidden_size)

    def extract_features(self, prev_output_tokens, encoder_out: Optional[EncoderOut] = None, incremental_state=None):
        """fairseq's method; the attention that it returns is over the source's steps, [B, steps of the target, T]."""
        if encoder_out is None:
            return super().extract_features(prev_output_tokens, None, incremental_state)
        memory = (*encoder_out[:3], encoder_out.bias)
        x, attention = super().extract_features(prev_output_tokens, memory, incremental_state)
        if attention is not None and encoder_out.entries is not None:
            entries = encoder_out.entries.t().unsqueeze(1).expand(-1, attention.shape[1], -1)
            attention = attention.gather(2, entries) * encoder_out.shares.t().unsqueeze(1).type_as(attention)
        return x, attention
