"""The fairseq model ``skip_rnn_ctc`` for speech and the criterion ``ctc``: a Skip RNN reads frames, and a linear layer
predicts a token, or none, at each step."""

from dataclasses import dataclass
from typing import Dict, List, Optional

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderModel, register_model
from torch import Tensor, nn

from .fitting import FitsTasks, find_dictionaries
from .recurrence import register_architectures
from .speech import LoadsEncoder, SkipRNNSpeechEncoder, SpeechConfig


@dataclass
class SkipRNNCTCConfig(SpeechConfig):
    """Options of a speech encoder."""


class GreedyGenerator:
    """What ``fairseq-generate`` writes for CTC models: the most probable token of each step, where equal neighbours are
    one token and blanks none. Of several models the probabilities are averaged.

    Args:
        dictionary: the target's.
        blank: the token that criterion ``ctc`` takes as the blank.
    """

    def __init__(self, dictionary: Dictionary, blank: int):
        self.eos = dictionary.eos()  # fairseq-generate leaves it out of what it prints
        self.blank = blank

    @torch.no_grad()
    def generate(self, models, sample, prefix_tokens=None, constraints=None) -> List[List[Dict[str, Tensor]]]:
        """One hypothesis for each source, as fairseq's ``SequenceGenerator`` returns it. The score is the mean over
        steps of the most probable token's log-probability.

        Raises:
            ValueError: the models make different numbers of steps of the frames.
        """
        inputs = {name: sample["net_input"][name] for name in ("src_tokens", "src_lengths")}
        outputs = [model(**inputs) for model in models]
        if len({output["padding_mask"].shape for output in outputs}) > 1:
            raise ValueError("--path: expected models that make equally many steps of the frames (--stack-frames)")
        probabilities = sum(model.get_normalized_probs(output, False) for model, output in zip(models, outputs))
        scores, tokens = (probabilities / len(models)).max(-1)
        steps = (~outputs[0]["padding_mask"]).sum(1).tolist()
        rows = zip(tokens.unbind(1), scores.log().unbind(1), steps)
        return [[self._write(row[:length], log_probs[:length])] for row, log_probs, length in rows]

    def _write(self, tokens: Tensor, log_probs: Tensor) -> Dict[str, Tensor]:
        begins = torch.ones_like(tokens, dtype=torch.bool)
        begins[1:] = tokens[1:] != tokens[:-1]
        kept = begins & (tokens != self.blank)
        end = tokens.new_tensor([self.eos])
        return {
            "tokens": torch.cat([tokens[kept], end]),
            "score": log_probs.sum() / max(len(log_probs), 1),
            "positional_scores": torch.cat([log_probs[kept], log_probs.new_zeros(1)]),
            "attention": None,
            "alignment": torch.empty(0),
        }


@register_model("skip_rnn_ctc", dataclass=SkipRNNCTCConfig)
class SkipRNNCTCModel(LoadsEncoder, FitsTasks, FairseqEncoderModel):
    """A :class:`SkipRNNSpeechEncoder` and a linear layer.

    Args:
        encoder: the encoder.
        tokens: the number of tokens.
        blank: the one that criterion ``ctc`` takes as the blank.
    """

    ending = "_ctc"
    predicts_padding_mask = True  # so criterion ctc takes the number of steps from the model's output

    def __init__(self, encoder: SkipRNNSpeechEncoder, tokens: int, blank: int):
        super().__init__(encoder)
        self.blank = blank
        self.projection = nn.Linear(encoder.output_units, tokens)
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    @classmethod
    def build_model(cls, cfg, task):
        """fairseq's constructor, for a task with a dictionary of the target alone.

        Raises:
            ValueError: an option with a wrong value; the message names it.
        """
        source, target = find_dictionaries(task)
        if source is not None or target is None:
            raise cls.explain_misfit(cfg, task)
        # as the criterion does: 0 is the beginning of a sentence
        blank = target.index(task.blank_symbol) if hasattr(task, "blank_symbol") else 0
        model = cls(SkipRNNSpeechEncoder(cfg), len(target), blank)
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

    def get_targets(self, sample, net_output):
        """What criterions ask for that compare each prediction with a target; ``ctc`` does not.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "--criterion: expected ctc for an architecture that ends in _ctc, got another one; an architecture that "
            "ends in _s2t goes with it"
        )

    def build_generator(self, task) -> GreedyGenerator:
        """What ``fairseq-generate`` uses in place of a beam search."""
        return GreedyGenerator(task.target_dictionary, self.blank)


register_architectures(SkipRNNCTCConfig, SkipRNNCTCModel.ending)
