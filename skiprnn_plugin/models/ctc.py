"""The fairseq model ``skip_rnn_ctc`` for speech and the criterion ``ctc``: a Skip RNN reads frames, and a linear layer
predicts a token, or none, at each step."""

from dataclasses import dataclass
from typing import Dict, Optional

from fairseq.models import FairseqEncoderModel, register_model
from torch import Tensor, nn

from .fitting import explain_misfit, find_dictionaries, refuse_misfit
from .recurrence import name_architecture, register_architectures
from .speech import LoadsEncoder, SkipRNNSpeechEncoder, SpeechConfig


@dataclass
class SkipRNNCTCConfig(SpeechConfig):
    """Options of a speech encoder."""


@register_model("skip_rnn_ctc", dataclass=SkipRNNCTCConfig)
class SkipRNNCTCModel(LoadsEncoder, FairseqEncoderModel):
    """A :class:`SkipRNNSpeechEncoder` and a linear layer.

    Args:
        encoder: the encoder.
        tokens: the number of tokens, of which the criterion takes 0, the beginning of a sentence, as the blank.
    """

    predicts_padding_mask = True  # so criterion ctc takes the number of steps from the model's output

    def __init__(self, encoder: SkipRNNSpeechEncoder, tokens: int):
        super().__init__(encoder)
        self.projection = nn.Linear(encoder.output_units, tokens)
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    @classmethod
    def add_args(cls, parser):
        """Add the options to a parser. Raises ValueError for a command line of a task that does not go with them."""
        super().add_args(parser)
        refuse_misfit("_ctc")

    @classmethod
    def build_model(cls, cfg, task):
        """fairseq's constructor, for a task with a dictionary of the target alone.

        Raises:
            ValueError: an option with a wrong value; the message names it.
        """
        source, target = find_dictionaries(task)
        if source is not None or target is None:
            raise explain_misfit(name_architecture(cfg), "_ctc", type(task))
        model = cls(SkipRNNSpeechEncoder(cfg), len(target))
        model.load_encoder(cfg)
        return model

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        padding_mask: Optional[Tensor] = None,
        **kwargs,
    ) -> Dict[str, Tensor]:
        """Predict a token or the blank at each step.

        Args:
            src_tokens: frames, [B, T, features].
            src_lengths: frames of each sequence, int64 [B]; None means T.
            padding_mask: True at padding, bool [B, T]; an alternative to ``src_lengths``.

        Returns:
            ``encoder_out``, the logits of T' steps, [T', B, tokens], and ``padding_mask``, bool [B, T'].
        """
        if padding_mask is not None:
            src_lengths = (~padding_mask).sum(1)
        output, _, _, padding = self.encoder.read(src_tokens, src_lengths)
        logits = self.projection(self.encoder.dropout_out(output))
        return {"encoder_out": logits.transpose(0, 1), "padding_mask": padding}


register_architectures("skip_rnn_ctc", SkipRNNCTCConfig, "_ctc")
