"""The fairseq model ``skip_rnn_seq2seq`` for translation: a Skip RNN reads the source, and fairseq's LSTM decoder with
attention writes the target."""

from dataclasses import dataclass, field
from typing import Dict, Optional

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel, register_model
from torch import Tensor, nn

from .attention import EncoderOut
from .encoder import (
    EncoderDecoderConfig,
    TokenEncoder,
    build_decoder,
    check_shared_embedding,
    check_sizes,
    choose_memory,
    load_embedding,
)
from .fitting import FitsTasks, find_dictionaries
from .recurrence import register_architectures


@dataclass
class SkipRNNSeq2SeqConfig(EncoderDecoderConfig):
    """Options of fairseq's model ``lstm`` by the same names and with the same defaults, and those of a Skip RNN."""

    gate_init: str = field(
        default="authors",
        metadata={"help": "initial weights of the gate: authors, or zeros, which helps a gate that closes early"},
    )
    encoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "file of pretrained embeddings of the source"}
    )
    encoder_freeze_embed: bool = field(default=False, metadata={"help": "do not train the source's embeddings"})
    share_all_embeddings: bool = field(
        default=False,
        metadata={
            "help": "one embedding for the encoder, the decoder's input and its output (needs a joined dictionary)"
        },
    )


class SkipRNNTokenEncoder(TokenEncoder):
    """A :class:`TokenEncoder` whose output a decoder attends to."""

    def __init__(self, cfg: SkipRNNSeq2SeqConfig, dictionary: Dictionary, embed_tokens: nn.Embedding):
        super().__init__(cfg, dictionary, embed_tokens, **choose_memory(cfg))

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **kwargs) -> EncoderOut:
        """Read sources, which may be padded on the left or on the right.

        Args:
            src_tokens: token ids, int64 [B, T].
            src_lengths: not used, as the padding shows it; fairseq gives it.
        """
        return self.attend(*self.read(src_tokens))

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> Dict[str, Tensor]:
        """Turn the weights of the encoder of fairseq's ``lstm`` into those of this one, which then starts from states
        of 0. A gate that the checkpoint does not have keeps its present weights.

        Raises:
            ValueError: the weights are of an encoder that this one has no counterpart of.
        """
        old, new = f"{name}.lstm.", f"{name}.rnn."
        weights = {key: state_dict.pop(key) for key in list(state_dict) if key.startswith(old)}
        if not weights:
            return super().upgrade_state_dict_named(state_dict, name)
        if self.rnn.cell != "lstm":
            raise ValueError(f"--arch: expected an architecture with an LSTM, as the checkpoint's, got {self.rnn.cell}")
        if f"{old}weight_ih_l1_reverse" in weights:
            raise ValueError(
                "--encoder-layers: the checkpoint's LSTM encoder has two directions and several layers, and joins the "
                "directions between the layers, which a Skip RNN does not; expected one layer or one direction"
            )
        state_dict.update({new + key[len(old) :]: value for key, value in weights.items()})
        for key, value in self.rnn.state_dict().items():
            if new + key not in state_dict and key.startswith("initial_"):
                state_dict[new + key] = torch.zeros_like(value)
        return super().upgrade_state_dict_named(state_dict, name)


@register_model("skip_rnn_seq2seq", dataclass=SkipRNNSeq2SeqConfig)
class SkipRNNSeq2SeqModel(FitsTasks, FairseqEncoderDecoderModel):
    """A :class:`SkipRNNTokenEncoder` and fairseq's ``LSTMDecoder``, as :class:`EntryDecoder`.

    A checkpoint of fairseq's ``lstm`` can be loaded, as by ``--finetune-from-model``.
    """

    ending = "_seq2seq"

    @classmethod
    def build_model(cls, cfg, task):
        """fairseq's constructor, for a task with dictionaries of a source and a target.

        Raises:
            ValueError: an option with a wrong value, or options that exclude each other; the message names them.
        """
        source, target = find_dictionaries(task)
        if source is None or target is None:
            raise cls.explain_misfit(cfg, task)
        _check(cfg, source, target)
        embed_source = load_embedding(source, cfg.encoder_embed_dim, cfg.encoder_embed_path)
        if cfg.share_all_embeddings:
            embed_target = embed_source
        else:
            embed_target = load_embedding(target, cfg.decoder_embed_dim, cfg.decoder_embed_path)
        if cfg.encoder_freeze_embed:
            embed_source.requires_grad_(False)
        if cfg.decoder_freeze_embed:
            embed_target.requires_grad_(False)
        encoder = SkipRNNTokenEncoder(cfg, source, embed_source)
        shared = cfg.share_decoder_input_output_embed or cfg.share_all_embeddings
        decoder = build_decoder(cfg, target, encoder, embed_target, shared)
        return cls(encoder, decoder)


def _check(cfg: SkipRNNSeq2SeqConfig, source: Dictionary, target: Dictionary) -> None:
    """Raise ValueError for an option with a wrong value, or for options that exclude each other."""
    check_sizes(cfg, "encoder_embed_dim")
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
        check_shared_embedding(cfg)


register_architectures(SkipRNNSeq2SeqConfig, SkipRNNSeq2SeqModel.ending)
