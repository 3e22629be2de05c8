"""The fairseq model ``skip_rnn_seq2seq`` for translation: a Skip RNN reads the source, and fairseq's LSTM decoder with
attention writes the target."""

import math
from dataclasses import dataclass, field
from typing import Dict, List, Optional

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, register_model
from fairseq.models.lstm import DEFAULT_MAX_SOURCE_POSITIONS, Embedding
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ..arguments import check_choice, check_probability, check_size
from ..ops import SkipState
from .attention import EncoderOut, EntryDecoder, find_repeats
from .recurrence import RandomDecisions, RecurrenceConfig, build_rnn, name_architecture, register_architectures

_MULTIPLIER = 6364136223846793005  # odd, so that no token loses its influence on the sum modulo 2**64


@dataclass
class SkipRNNSeq2SeqConfig(RecurrenceConfig):
    """Options of fairseq's model ``lstm`` by the same names and with the same defaults, and those of a Skip RNN."""

    dropout: float = field(default=0.1, metadata={"help": "dropout where no other option says otherwise"})
    encoder_embed_dim: int = field(default=512, metadata={"help": "size of the source's embeddings"})
    encoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "file of pretrained embeddings of the source"}
    )
    encoder_freeze_embed: bool = field(default=False, metadata={"help": "do not train the source's embeddings"})
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
    share_all_embeddings: bool = field(
        default=False,
        metadata={
            "help": "one embedding for the encoder, the decoder's input and its output (needs a joined dictionary)"
        },
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
    """Embedding -> dropout -> Skip RNN -> dropout.

    Args:
        cfg: the options.
        dictionary: the source's.
        embed_tokens: the embedding of token ids, [len(dictionary), encoder_embed_dim].

    Raises:
        ValueError: an option with a wrong value; the message names it.
    """

    def __init__(self, cfg: SkipRNNSeq2SeqConfig, dictionary: Dictionary, embed_tokens: nn.Embedding):
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.dropout_in = FairseqDropout(_dropout(cfg, "encoder_dropout_in"), module_name=type(self).__name__)
        self.dropout_out = FairseqDropout(_dropout(cfg, "encoder_dropout_out"), module_name=type(self).__name__)
        self.rnn = build_rnn(
            cfg,
            cfg.encoder_embed_dim,
            hidden_size=_hidden_size(cfg, "encoder"),
            num_layers=cfg.encoder_layers,
            dropout=self.dropout_out.p,
            bidirectional=cfg.encoder_bidirectional,
        )
        self.decisions = RandomDecisions(cfg, cfg.encoder_bidirectional)
        self.cell_from_h = check_choice("--decoder-initial-cell", cfg.decoder_initial_cell, ("h", "zero")) == "h"
        self.attend_updates = cfg.attend_updates
        self.output_units = self.rnn.hidden_size * (2 if cfg.encoder_bidirectional else 1)

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **kwargs) -> EncoderOut:
        """Read sources, which may be padded on the left or on the right.

        Args:
            src_tokens: token ids, int64 [B, T].
            src_lengths: not used, as the padding shows it; fairseq gives it.
        """
        padding = src_tokens.eq(self.dictionary.pad())
        x = self.dropout_in(self.embed_tokens(src_tokens))
        positions = ((~padding).cumsum(1) - 1).clamp(min=0)
        seeds = None if self.training else _seeds(src_tokens, padding, positions)
        output, state, updates = self.rnn(x, padding_mask=padding, **self.decisions.draw(x, seeds, positions))
        return self._attend(output, *self._last_states(state), updates, padding)

    def _attend(self, output: Tensor, hiddens: Tensor, cells: Tensor, updates: Tensor, padding: Tensor) -> EncoderOut:
        """The entries that the decoder attends to: one for each step; or, in evaluation and with ``--attend-updates``,
        one for equal outputs that follow one another."""
        if self.training and not self.attend_updates or padding.shape[1] == 0:
            bias = torch.zeros(padding.shape, device=padding.device).masked_fill(padding, -math.inf)
            return EncoderOut(self.dropout_out(output).transpose(0, 1), hiddens, cells, padding.t(), bias.t())
        memory = find_repeats(updates, padding)
        output = output.gather(1, memory.begins.unsqueeze(-1).expand(-1, -1, output.shape[2]))
        missing = memory.lengths == 0
        if self.attend_updates:
            bias = torch.zeros(missing.shape, device=missing.device).masked_fill(missing, -math.inf)
            shares = memory.begins.gather(1, memory.entries) == torch.arange(padding.shape[1], device=padding.device)
        else:
            bias = memory.lengths.float().log()
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

    def max_positions(self) -> int:
        """The longest source: no limit but fairseq's, as the task has its own."""
        return int(DEFAULT_MAX_SOURCE_POSITIONS)

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> Dict[str, Tensor]:
        """Turn the weights of the encoder of fairseq's ``lstm`` into those of this one, which then starts from states
        of 0. The gate's weights, which that encoder does not have, keep their present values.

        Raises:
            ValueError: the weights are of an encoder that this one has no counterpart of.
        """
        old, new = f"{name}.lstm.", f"{name}.rnn."
        weights = {key: state_dict.pop(key) for key in list(state_dict) if key.startswith(old)}
        if not weights:
            return state_dict
        if self.rnn.cell != "lstm":
            raise ValueError(f"--arch: expected an architecture with an LSTM, as the checkpoint's, got {self.rnn.cell}")
        if f"{old}weight_ih_l1_reverse" in weights:
            raise ValueError(
                "--encoder-layers: the checkpoint's LSTM encoder has two directions and several layers, and joins the "
                "directions between the layers, which a Skip RNN does not; expected one layer or one direction"
            )
        state_dict.update({new + key[len(old) :]: value for key, value in weights.items()})
        for key, value in self.rnn.state_dict().items():
            if new + key not in state_dict and key.startswith(("initial_", "update_")):
                state_dict[new + key] = torch.zeros_like(value) if key.startswith("initial_") else value
        return state_dict


@register_model("skip_rnn_seq2seq", dataclass=SkipRNNSeq2SeqConfig)
class SkipRNNSeq2SeqModel(FairseqEncoderDecoderModel):
    """A :class:`SkipRNNEncoder` and fairseq's ``LSTMDecoder``, as :class:`EntryDecoder`.

    A checkpoint of fairseq's ``lstm`` can be loaded, as by ``--finetune-from-model``.
    """

    @classmethod
    def build_model(cls, cfg, task):
        """fairseq's constructor, for a task with dictionaries of a source and a target.

        Raises:
            ValueError: an option with a wrong value, or options that exclude each other; the message names them.
        """
        try:
            source, target = task.source_dictionary, task.target_dictionary
        except (AttributeError, NotImplementedError):
            name = name_architecture(cfg)
            raise ValueError(
                f"--arch: expected an architecture that goes with {type(task).__name__}, such as {name}, got "
                f"{name}_seq2seq, which is for tasks with a source and a target in words, such as translation"
            ) from None
        _check(cfg, source, target)
        embed_source = _load_embedding(source, cfg.encoder_embed_dim, cfg.encoder_embed_path)
        if cfg.share_all_embeddings:
            embed_target = embed_source
        else:
            embed_target = _load_embedding(target, cfg.decoder_embed_dim, cfg.decoder_embed_path)
        if cfg.encoder_freeze_embed:
            embed_source.requires_grad_(False)
        if cfg.decoder_freeze_embed:
            embed_target.requires_grad_(False)
        encoder = SkipRNNEncoder(cfg, source, embed_source)
        decoder = EntryDecoder(
            target,
            embed_dim=cfg.decoder_embed_dim,
            hidden_size=_hidden_size(cfg, "decoder"),
            out_embed_dim=cfg.decoder_out_embed_dim,
            num_layers=cfg.decoder_layers,
            dropout_in=_dropout(cfg, "decoder_dropout_in"),
            dropout_out=_dropout(cfg, "decoder_dropout_out"),
            attention=_attends(cfg),
            encoder_output_units=encoder.output_units,
            pretrained_embed=embed_target,
            share_input_output_embed=cfg.share_decoder_input_output_embed or cfg.share_all_embeddings,
            adaptive_softmax_cutoff=cfg.adaptive_softmax_cutoff and list(cfg.adaptive_softmax_cutoff),
        )
        return cls(encoder, decoder)


def _seeds(src_tokens: Tensor, padding: Tensor, positions: Tensor) -> Tensor:
    """A number for each source, int64 [B], that depends on its words and their positions alone, so that every command
    repeats a model's random decisions, whatever the batch."""
    steps = max(src_tokens.shape[1], 1)
    factors = torch.full((steps,), _MULTIPLIER, device=src_tokens.device).cumprod(0)
    return ((src_tokens + 1) * factors[positions]).masked_fill(padding, 0).sum(1)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _dropout(cfg: SkipRNNSeq2SeqConfig, name: str) -> float:
    name = "dropout" if getattr(cfg, name) is None else name
    return check_probability(_option(name), getattr(cfg, name))


def _hidden_size(cfg: SkipRNNSeq2SeqConfig, side: str) -> int:
    size = getattr(cfg, f"{side}_hidden_size")
    return getattr(cfg, f"{side}_embed_dim") if size is None else check_size(f"--{side}-hidden-size", size)


def _attends(cfg: SkipRNNSeq2SeqConfig) -> bool:
    values = ("1", "0", "true", "false")
    return check_choice("--decoder-attention", str(cfg.decoder_attention).lower(), values) in ("1", "true")


def _check(cfg: SkipRNNSeq2SeqConfig, source: Dictionary, target: Dictionary) -> None:
    """Raise ValueError for an option with a wrong value, or for options that exclude each other."""
    for name in ("encoder_embed_dim", "encoder_layers", "decoder_embed_dim", "decoder_layers", "decoder_out_embed_dim"):
        check_size(_option(name), getattr(cfg, name))
    if cfg.encoder_layers != cfg.decoder_layers:
        raise ValueError(
            f"--decoder-layers: expected as many as --encoder-layers, {cfg.encoder_layers}, got {cfg.decoder_layers}"
        )
    if cfg.share_all_embeddings:
        if source != target:
            raise ValueError("--share-all-embeddings: expected a joined dictionary, got two that differ")
        if cfg.encoder_embed_dim != cfg.decoder_embed_dim:
            raise ValueError(
                f"--share-all-embeddings: expected --decoder-embed-dim to be that of the encoder, "
                f"{cfg.encoder_embed_dim}, got {cfg.decoder_embed_dim}"
            )
        if cfg.decoder_embed_path not in (None, cfg.encoder_embed_path):
            raise ValueError(
                f"--share-all-embeddings: expected no --decoder-embed-path, or that of the encoder, got "
                f"{cfg.decoder_embed_path}"
            )
    if cfg.share_all_embeddings or cfg.share_decoder_input_output_embed:
        if cfg.decoder_embed_dim != cfg.decoder_out_embed_dim:
            raise ValueError(
                "--decoder-out-embed-dim: expected as much as --decoder-embed-dim, with which it is shared, "
                f"{cfg.decoder_embed_dim}, got {cfg.decoder_out_embed_dim}"
            )


def _load_embedding(dictionary: Dictionary, size: int, path: Optional[str]) -> nn.Embedding:
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


register_architectures("skip_rnn_seq2seq", SkipRNNSeq2SeqConfig, "_seq2seq")
