"""The fairseq model ``skip_rnn_text`` for sentence prediction: a Skip RNN reads a text, and classification heads read
its output."""

import logging
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Tuple

import torch
from fairseq.models import FairseqEncoderModel, register_model
from omegaconf import II
from torch import Tensor, nn

from ..arguments import check_size
from .encoder import EncoderConfig, TokenEncoder, load_embedding
from .fitting import FitsTasks, find_dictionaries, refuse_task
from .recurrence import name_architecture, register_architectures

logger = logging.getLogger(__name__)


@dataclass
class SkipRNNTextConfig(EncoderConfig):
    """Options of the encoder of fairseq's model ``lstm`` by the same names, and those of a Skip RNN."""

    encoder_embed_path: Optional[str] = field(default=None, metadata={"help": "file of pretrained embeddings"})
    encoder_freeze_embed: bool = field(default=False, metadata={"help": "do not train the embeddings"})
    max_positions: int = II("task.max_positions")  # set by the task, not an option of the model


class SkipRNNTextEncoder(TokenEncoder):
    """A :class:`TokenEncoder` whose output classification heads read."""

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, last_only: bool = False
    ) -> Tuple[Tensor, Dict[str, Tensor]]:
        """Read texts, which may be padded on the left or on the right.

        Args:
            src_tokens: token ids, int64 [B, T].
            src_lengths: not used, as the padding shows it; fairseq gives it.
            last_only: whether to return only the output after each text's last token; backwards that is the first.

        Returns:
            output: [B, T, output_units], 0 at padding; [B, output_units] with ``last_only``.
            extra: ``updates``, 1 where a token was read and 0 where it was skipped or is padding, [B, directions, T];
                ``padding_mask``, True at padding, bool [B, T].
        """
        output, _, updates, padding = self.read(src_tokens, last_only)
        return self.dropout_out(output), {"updates": updates, "padding_mask": padding}


@register_model("skip_rnn_text", dataclass=SkipRNNTextConfig)
class SkipRNNTextModel(FitsTasks, FairseqEncoderModel):
    """A :class:`SkipRNNTextEncoder` and linear classification heads, which have names, as fairseq's RoBERTa has them.

    Attributes:
        classification_heads: the heads by name; a checkpoint's heads are made when it is loaded.
    """

    ending = "_text"
    args = None  # the criterion sentence_prediction of fairseq 0.12.2 looks for two options of transformers in it

    def __init__(self, encoder: SkipRNNTextEncoder):
        super().__init__(encoder)
        self.classification_heads = nn.ModuleDict()

    @classmethod
    def build_model(cls, cfg, task):
        """fairseq's constructor, for a task with a dictionary of the text.

        Raises:
            ValueError: an option with a wrong value, or another task; the message names it.
        """
        refuse_task(name_architecture(cfg), cls.ending, type(task))
        dictionary, _ = find_dictionaries(task)
        if dictionary is None or hasattr(task, "input_size"):  # one of this plugin's own has the latter
            raise cls.explain_misfit(cfg, task)
        check_size("--encoder-embed-dim", cfg.encoder_embed_dim)
        embed_tokens = load_embedding(dictionary, cfg.encoder_embed_dim, cfg.encoder_embed_path)
        embed_tokens.requires_grad_(not cfg.encoder_freeze_embed)
        return cls(SkipRNNTextEncoder(cfg, dictionary, embed_tokens))

    @classmethod
    def from_pretrained(cls, model_name_or_path, checkpoint_file=None, data_name_or_path=".", bpe=None, **kwargs):
        """As :func:`skiprnn_plugin.text_hub.text_from_pretrained`."""
        from ..text_hub import text_from_pretrained  # not at the top, as it imports fairseq, which may import this

        return text_from_pretrained(model_name_or_path, checkpoint_file, data_name_or_path, bpe, **kwargs)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        features_only: bool = True,
        classification_head_name: Optional[str] = None,
    ) -> Tuple[Tensor, Dict[str, Tensor]]:
        """Read texts, and let a head classify them.

        Args:
            src_tokens, src_lengths: as :meth:`SkipRNNTextEncoder.forward`.
            features_only: not used, as this model has no head for words; fairseq gives it.
            classification_head_name: the head; None for the outputs at all steps.

        Returns:
            What the head returns, [B, num_classes], or the outputs, [B, T, output_units]; and ``extra`` of
            :meth:`SkipRNNTextEncoder.forward`.
        """
        if classification_head_name is None:
            return self.encoder(src_tokens)
        x, extra = self.encoder(src_tokens, last_only=True)
        return self.classification_heads[classification_head_name](x), extra

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        """Class probabilities, in float32."""
        normalize = torch.log_softmax if log_probs else torch.softmax
        return normalize(net_output[0].float(), -1)

    def register_classification_head(self, name: str, num_classes: int) -> None:
        """Add a head, or replace the one of this name.

        Args:
            name: its name.
            num_classes: numbers that it returns for a text.
        """
        head = nn.Linear(self.encoder.output_units, num_classes)
        nn.init.xavier_uniform_(head.weight)
        nn.init.zeros_(head.bias)
        self.classification_heads[name] = head.to(self.encoder.embed_tokens.weight)

    def upgrade_state_dict_named(self, state_dict: Dict[str, Any], name: str) -> None:
        """Make those heads of a checkpoint that this model lacks. A head that the checkpoint lacks, or has with another
        number of classes, keeps its present weights."""
        super().upgrade_state_dict_named(state_dict, name)
        start = f"{name}." * bool(name) + "classification_heads."
        stored = [key for key in state_dict if key.startswith(start) and key.endswith(".weight")]
        for key in stored:
            head, classes = key[len(start) : -len(".weight")], len(state_dict[key])
            if head not in self.classification_heads:
                self.register_classification_head(head, classes)
            elif classes != self.classification_heads[head].out_features:
                expected = self.classification_heads[head].out_features
                logger.warning(f"the checkpoint's head {head!r} has {classes} classes, expected {expected}: left out")
                for part in ("weight", "bias"):
                    del state_dict[f"{start}{head}.{part}"]
        for key, value in self.classification_heads.state_dict().items():
            state_dict.setdefault(start + key, value)


register_architectures(SkipRNNTextConfig, SkipRNNTextModel.ending)
