"""The fairseq model ``skip_rnn_s2t`` for speech: a Skip RNN reads frames, and fairseq's LSTM decoder with attention
writes the text."""

from dataclasses import dataclass

from fairseq.models import FairseqEncoderDecoderModel, register_model

from .encoder import (
    EncoderDecoderConfig,
    build_decoder,
    check_shared_embedding,
    check_sizes,
    choose_memory,
    load_embedding,
)
from .fitting import FitsTasks, find_dictionaries
from .recurrence import register_architectures
from .speech import LoadsEncoder, SkipRNNSpeechEncoder, SpeechConfig


@dataclass
class SkipRNNS2TConfig(SpeechConfig, EncoderDecoderConfig):
    """Options of a speech encoder and of a decoder."""


@register_model("skip_rnn_s2t", dataclass=SkipRNNS2TConfig)
class SkipRNNS2TModel(LoadsEncoder, FitsTasks, FairseqEncoderDecoderModel):
    """A :class:`SkipRNNSpeechEncoder` and fairseq's ``LSTMDecoder``, as :class:`EntryDecoder`."""

    ending = "_s2t"
    goes_with_ctc = False  # that criterion compares a prediction for each step, which a decoder does not make

    @classmethod
    def build_model(cls, cfg, task):
        """fairseq's constructor, for a task with a dictionary of the target alone.

        Raises:
            ValueError: an option with a wrong value, or options that exclude each other; the message names them.
        """
        source, target = find_dictionaries(task)
        if source is not None or target is None:
            raise cls.explain_misfit(cfg, task)
        check_sizes(cfg)
        if cfg.share_decoder_input_output_embed:
            check_shared_embedding(cfg)
        encoder = SkipRNNSpeechEncoder(cfg, **choose_memory(cfg))
        embedding = load_embedding(target, cfg.decoder_embed_dim, cfg.decoder_embed_path)
        if cfg.decoder_freeze_embed:
            embedding.requires_grad_(False)
        model = cls(encoder, build_decoder(cfg, target, encoder, embedding, cfg.share_decoder_input_output_embed))
        model.load_encoder(cfg)
        return model


register_architectures(SkipRNNS2TConfig, SkipRNNS2TModel.ending)
