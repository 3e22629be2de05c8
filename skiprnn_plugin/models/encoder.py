"""What the plugin's models for tokens and for speech have in common: the options and the parts of a Skip RNN that reads
a source, and those of fairseq's LSTM decoder with attention, which writes the target."""

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder
from fairseq.models.lstm import DEFAULT_MAX_SOURCE_POSITIONS, Embedding
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ..arguments import as_option, check_choice, check_probability, check_size
from ..ops import SkipState
from .attention import EncoderOut, EntryDecoder, find_repeats
from .recurrence import RandomDecisions, RecurrenceConfig, build_rnn, fit_gate, stack_directions

NO_ENTRY = torch.finfo(torch.float32).min  # not -inf: a source of length 0 would have NaN as its attention
_MULTIPLIER = 6364136223846793005  # odd, so that no number loses its influence on the sum modulo 2**64


@dataclass
class EncoderConfig(RecurrenceConfig):
    """Options of a Skip RNN, and those of the encoder of fairseq's model ``lstm`` by the same names and with the same
    defaults.

    The gate's weights start at 0. Before a decoder or a head has learnt to use what is read, skipping costs nothing. In
    speech the gate then closed with the authors' start, and in sentence prediction it read more for the same accuracy.
    In translation the authors' start was as good or better, so there it is the default.
    """

    gate_init: str = field(
        default="zeros",
        metadata={
            "help": "initial weights of the gate: zeros, or authors, with which it may close before it is needed"
        },
    )
    dropout: float = field(default=0.1, metadata={"help": "dropout where no other option says otherwise"})
    encoder_embed_dim: int = field(default=512, metadata={"help": "size of the source's embeddings"})
    encoder_hidden_size: Optional[int] = field(
        default=None, metadata={"help": "units of each encoder layer (default: --encoder-embed-dim)"}
    )
    encoder_layers: int = field(
        default=1, metadata={"help": "number of encoder layers; one gate decides for all of them"}
    )
    encoder_bidirectional: bool = field(
        default=False,
        metadata={"help": "read the reversed source too, in a second stack with a separate gate"},
    )
    encoder_dropout_in: Optional[float] = field(
        default=None, metadata={"help": "dropout of the source's embeddings (default: --dropout)"}
    )
    encoder_dropout_out: Optional[float] = field(
        default=None, metadata={"help": "dropout of the encoder's outputs and between its layers (default: --dropout)"}
    )


@dataclass
class EncoderDecoderConfig(EncoderConfig):
    """Options of an encoder, and of the decoder, with the names and defaults of fairseq's model ``lstm``."""

    decoder_embed_dim: int = field(default=512, metadata={"help": "size of the target's embeddings"})
    decoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "file of pretrained embeddings of the target"}
    )
    decoder_freeze_embed: bool = field(default=False, metadata={"help": "do not train the target's embeddings"})
    decoder_hidden_size: Optional[int] = field(
        default=None, metadata={"help": "units of each decoder layer (default: --decoder-embed-dim)"}
    )
    decoder_layers: int = field(default=1, metadata={"help": "number of decoder layers, the same as --encoder-layers"})
    decoder_out_embed_dim: int = field(default=512, metadata={"help": "size of the decoder's output embeddings"})
    decoder_attention: str = field(default="1", metadata={"help": "whether the decoder attends to the source: 1 or 0"})
    decoder_dropout_in: Optional[float] = field(
        default=None, metadata={"help": "dropout of the target's embeddings (default: --dropout)"}
    )
    decoder_dropout_out: Optional[float] = field(
        default=None, metadata={"help": "dropout of the decoder's outputs (default: --dropout)"}
    )
    decoder_initial_cell: str = field(
        default="h",
        metadata={
            "help": "what the decoder's cell state starts from if the encoder has none, as a GRU: h, the encoder's "
            "last state, or zero"
        },
    )
    share_decoder_input_output_embed: bool = field(
        default=False, metadata={"help": "one embedding for the decoder's input and output"}
    )
    attend_updates: bool = field(
        default=False,
        metadata={
            "help": "attend only to steps that were updated, in training too (default: also to skipped steps, which "
            "repeat the output before them)"
        },
    )
    adaptive_softmax_cutoff: Optional[List[int]] = field(
        default=None, metadata={"help": "cutoff points of an adaptive softmax, with --criterion adaptive_loss alone"}
    )


class SkipRNNEncoder(FairseqEncoder):
    """Dropout -> Skip RNN -> dropout, of what a subclass makes of the source.

    Args:
        cfg: the options.
        dictionary: the source's; None if the source is not in tokens.
        input_size: features of each step.
        attend_updates: whether the decoder attends only to steps that were updated.
        cell_from_h: whether the cell state that a decoder starts from is ``h`` if the cell has no ``c``, or else 0.

    Raises:
        ValueError: an option with a wrong value; the message names it.
    """

    def __init__(
        self,
        cfg: EncoderConfig,
        dictionary: Optional[Dictionary],
        input_size: int,
        attend_updates: bool = False,
        cell_from_h: bool = True,
    ):
        super().__init__(dictionary)
        self.dropout_in = FairseqDropout(choose_dropout(cfg, "encoder_dropout_in"), module_name=type(self).__name__)
        self.dropout_out = FairseqDropout(choose_dropout(cfg, "encoder_dropout_out"), module_name=type(self).__name__)
        self.rnn = build_rnn(
            cfg,
            input_size,
            hidden_size=choose_hidden_size(cfg, "encoder"),
            num_layers=check_size("--encoder-layers", cfg.encoder_layers),
            dropout=self.dropout_out.p,
            bidirectional=cfg.encoder_bidirectional,
        )
        self.decisions = RandomDecisions(cfg, cfg.encoder_bidirectional)
        self.attend_updates = attend_updates
        self.cell_from_h = cell_from_h
        self.output_units = self.rnn.hidden_size * (2 if cfg.encoder_bidirectional else 1)

    def run(
        self,
        x: Tensor,
        padding: Tensor,
        seeds: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
        last_only: bool = False,
    ) -> Tuple[Tensor, SkipState, Tensor]:
        """The Skip RNN's output before dropout, its last state and its updates, [B, directions, T].

        Args:
            x: the steps before dropout, [B, T, input_size].
            padding: True at padding, left or right of each sequence, bool [B, T].
            seeds, positions: see :meth:`RandomDecisions.draw`.
            last_only: whether the output is only that after the last real step.
        """
        x, draws = self.dropout_in(x), self.decisions.draw(x, seeds, positions)
        output, state, updates = self.rnn(x, padding_mask=padding, last_only=last_only, **draws)
        return output, state, stack_directions(updates)

    def attend(self, output: Tensor, state: SkipState, updates: Tensor, padding: Tensor) -> EncoderOut:
        """The entries that the decoder attends to: one for each step; or, in evaluation and with ``--attend-updates``,
        one for equal outputs that follow one another. The arguments are those of :meth:`run` and what it returns."""
        hiddens, cells = self._last_states(state)
        if self.training and not self.attend_updates or padding.shape[1] == 0:
            bias = torch.zeros(padding.shape, device=padding.device).masked_fill(padding, NO_ENTRY)
            return EncoderOut(self.dropout_out(output).transpose(0, 1), hiddens, cells, padding.t(), bias.t())
        memory = find_repeats(updates, padding)
        output = output.gather(1, memory.begins.unsqueeze(-1).expand(-1, -1, output.shape[2]))
        missing = memory.lengths == 0
        if self.attend_updates:
            bias = torch.zeros(missing.shape, device=missing.device).masked_fill(missing, NO_ENTRY)
            shares = memory.begins.gather(1, memory.entries) == torch.arange(padding.shape[1], device=padding.device)
        else:
            bias = memory.lengths.float().log().clamp(min=NO_ENTRY)
            shares = 1 / memory.lengths.gather(1, memory.entries)
        shares = shares.float().masked_fill(padding, 0)
        output = self.dropout_out(output).transpose(0, 1)
        return EncoderOut(output, hiddens, cells, missing.t(), bias.t(), memory.entries.t(), shares.t())

    def _last_states(self, state: SkipState):
        """``h`` and ``c``, each [L, B, C]: the directions are joined, and a cell without ``c`` gets ``h`` or zeros."""
        h, c = (
            torch.cat(tuple(part), -1) if self.rnn.bidirectional and part is not None else part
            for part in (state.h, state.c)
        )
        if c is None:
            c = h if self.cell_from_h else torch.zeros_like(h)
        return h, c

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """``encoder_out`` of the sources ``new_order``, int64 [.]: beam search repeats, reorders and drops sources."""
        return EncoderOut(*(part if part is None else part.index_select(1, new_order) for part in encoder_out))

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> Dict[str, Tensor]:
        """fairseq calls this before weights are loaded, see :func:`fit_gate`. ``name`` is that of the encoder."""
        fit_gate(state_dict, f"{name}.rnn.", self.rnn)
        return state_dict

    def max_positions(self) -> int:
        """The longest source: no limit but fairseq's, as the task has its own."""
        return int(DEFAULT_MAX_SOURCE_POSITIONS)


class TokenEncoder(SkipRNNEncoder):
    """Embedding -> dropout -> Skip RNN -> dropout.

    Args:
        cfg: the options.
        dictionary: the source's.
        embed_tokens: the embedding of token ids, [len(dictionary), encoder_embed_dim].
        memory: ``attend_updates`` and ``cell_from_h`` of :class:`SkipRNNEncoder`.

    Raises:
        ValueError: an option with a wrong value; the message names it.
    """

    def __init__(self, cfg: EncoderConfig, dictionary: Dictionary, embed_tokens: nn.Embedding, **memory: bool):
        super().__init__(cfg, dictionary, cfg.encoder_embed_dim, **memory)
        self.embed_tokens = embed_tokens

    def read(self, src_tokens: Tensor, last_only: bool = False) -> Tuple[Tensor, SkipState, Tensor, Tensor]:
        """What :meth:`run` returns, and where the tokens are padding, bool [B, T].

        Args:
            src_tokens: token ids, int64 [B, T], padded on the left or on the right.
            last_only: see :meth:`run`.
        """
        padding = src_tokens.eq(self.dictionary.pad())
        positions = ((~padding).cumsum(1) - 1).clamp(min=0)
        seeds = None
        if self.decisions.exist and not self.training:
            seeds = hash_sequences(src_tokens + 1, padding, positions)
        return *self.run(self.embed_tokens(src_tokens), padding, seeds, positions, last_only), padding


def hash_sequences(numbers: Tensor, padding: Tensor, positions: Optional[Tensor] = None) -> Tensor:
    """A hash of each sequence, int64 [B], which depends on the numbers of its steps and on their positions alone, so
    that every command repeats a model's random decisions, whatever the batch.

    Args:
        numbers: int64 [B, T].
        padding: True at padding, bool [B, T].
        positions: the place of each step in its sequence, int64 [B, T]; None if padding is on the right.
    """
    factors = hash_multipliers(max(numbers.shape[1], 1), numbers.device)
    return (numbers * (factors if positions is None else factors[positions])).masked_fill(padding, 0).sum(1)


def hash_multipliers(size: int, device: torch.device) -> Tensor:
    """Odd numbers that differ, int64 [size], the first of which are the same for every size."""
    return torch.full((size,), _MULTIPLIER, device=device).cumprod(0)


def build_decoder(
    cfg: EncoderDecoderConfig,
    dictionary: Dictionary,
    encoder: SkipRNNEncoder,
    embed_tokens: nn.Embedding,
    share_input_output_embed: bool,
) -> EntryDecoder:
    """The decoder that the options describe.

    Args:
        cfg: the options.
        dictionary: the target's.
        encoder: the encoder whose output it reads.
        embed_tokens: the embedding of token ids, [len(dictionary), decoder_embed_dim].
        share_input_output_embed: whether this embedding also turns outputs into scores.
    """
    return EntryDecoder(
        dictionary,
        embed_dim=cfg.decoder_embed_dim,
        hidden_size=choose_hidden_size(cfg, "decoder"),
        out_embed_dim=cfg.decoder_out_embed_dim,
        num_layers=cfg.decoder_layers,
        dropout_in=choose_dropout(cfg, "decoder_dropout_in"),
        dropout_out=choose_dropout(cfg, "decoder_dropout_out"),
        attention=_attends(cfg),
        encoder_output_units=encoder.output_units,
        pretrained_embed=embed_tokens,
        share_input_output_embed=share_input_output_embed,
        adaptive_softmax_cutoff=cfg.adaptive_softmax_cutoff and list(cfg.adaptive_softmax_cutoff),
    )


def choose_memory(cfg: EncoderDecoderConfig) -> Dict[str, bool]:
    """The arguments of :class:`SkipRNNEncoder` that say what the decoder reads."""
    initial_cell = check_choice("--decoder-initial-cell", cfg.decoder_initial_cell, ("h", "zero"))
    return {"attend_updates": cfg.attend_updates, "cell_from_h": initial_cell == "h"}


def check_sizes(cfg: EncoderDecoderConfig, *more: str) -> None:
    """Raise ValueError for a size that is not an integer of at least 1, or for sizes that do not go together.

    Args:
        cfg: the options.
        more: further options that are sizes.
    """
    for name in ("encoder_layers", "decoder_embed_dim", "decoder_layers", "decoder_out_embed_dim", *more):
        check_size(as_option(name), getattr(cfg, name))
    if cfg.encoder_layers != cfg.decoder_layers:
        raise ValueError(
            f"--decoder-layers: expected as many as --encoder-layers, {cfg.encoder_layers}, got {cfg.decoder_layers}"
        )


def check_shared_embedding(cfg: EncoderDecoderConfig) -> None:
    """Raise ValueError if one embedding can't serve as the decoder's input and output."""
    if cfg.decoder_embed_dim != cfg.decoder_out_embed_dim:
        raise ValueError(
            "--decoder-out-embed-dim: expected as much as --decoder-embed-dim, with which it is shared, "
            f"{cfg.decoder_embed_dim}, got {cfg.decoder_out_embed_dim}"
        )


def choose_dropout(cfg: EncoderConfig, name: str) -> float:
    """The probability of an option, or that of ``--dropout`` in its place."""
    name = "dropout" if getattr(cfg, name) is None else name
    return check_probability(as_option(name), getattr(cfg, name))


def choose_hidden_size(cfg: EncoderConfig, side: str) -> int:
    """The units of a layer of the encoder or the decoder."""
    size = getattr(cfg, f"{side}_hidden_size")
    return getattr(cfg, f"{side}_embed_dim") if size is None else check_size(f"--{side}-hidden-size", size)


def _attends(cfg: EncoderDecoderConfig) -> bool:
    values = ("1", "0", "true", "false")
    return check_choice("--decoder-attention", str(cfg.decoder_attention).lower(), values) in ("1", "true")


def load_embedding(dictionary: Dictionary, size: int, path: Optional[str]) -> nn.Embedding:
    """A new embedding, [len(dictionary), size], with the values of the words that are in the file."""
    embedding = Embedding(len(dictionary), size, dictionary.pad())
    if path:
        values = utils.parse_embedding(path)
        wrong = {len(value) for value in values.values()} - {size}
        if wrong:
            raise ValueError(f"{path}: expected embeddings of size {size}, got {sorted(wrong)[0]}")
        utils.print_embed_overlap(values, dictionary)
        utils.load_embedding(values, dictionary, embedding)
    return embedding
