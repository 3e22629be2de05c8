"""The fairseq model ``skip_rnn`` and its architectures: Skip RNNs with a linear head, and the paper's baselines."""

from dataclasses import dataclass, field
from typing import Dict, NamedTuple, Optional

import torch
from fairseq.models import BaseFairseqModel, register_model
from torch import Tensor, nn

from ..arguments import check_probability
from ..predictions import CRITERIONS
from .fitting import FitsTasks
from .recurrence import (
    RandomDecisions,
    RecurrenceConfig,
    build_rnn,
    fit_gate,
    register_architectures,
    stack_directions,
)


@dataclass
class SkipRNNConfig(RecurrenceConfig):
    hidden_size: int = field(default=110, metadata={"help": "units of each layer"})
    num_layers: int = field(default=1, metadata={"help": "number of layers; one gate decides for all of them"})
    dropout: float = field(default=0.0, metadata={"help": "dropout between layers and before the head"})
    input_dropout: float = field(
        default=0.0, metadata={"help": "dropout of the input's features, or of the embeddings of token ids"}
    )
    bidirectional: bool = field(
        default=False,
        metadata={"help": "read the reversed sequence too, in a second stack with a separate gate"},
    )


class SkipRNNOutput(NamedTuple):
    """What the model returns.

    Attributes:
        prediction: [B, output_size]; [B, T, output_size] if the task predicts at every step (predictions at padding
            have no meaning).
        updates: 1 where a step was updated, 0 where it was skipped or is padding, [B, directions, T]. A bidirectional
            model has two directions, forward and backward, both in the order of the input.
        steps: real steps of each sequence, [B]; twice as many for a bidirectional model, as both directions read them.
        flops_per_update: multiply-accumulates of one update, by the paper's count, with those of the task's encoder.
        increment: the last update probability of each gate, [B] or [2, B]; None without a learned gate.
    """

    prediction: Tensor
    updates: Tensor
    steps: Tensor
    flops_per_update: float
    increment: Optional[Tensor] = None


@register_model("skip_rnn", dataclass=SkipRNNConfig)
class SkipRNNModel(FitsTasks, BaseFairseqModel):
    """Embedding (only for token ids) -> Skip RNN -> dropout -> linear head on the last output, or on every output.

    Args:
        cfg: the options.
        input_size: features of the input.
        output_size: numbers in a prediction.
        embedding: the embedding of token ids, [number of words, input_size]; None if the input is features.
        per_step: whether to predict from the output of every step instead of only the last one.
        encoder_flops: multiply-accumulates that an update takes besides those of the recurrence.
        predicts: what a prediction holds, see :class:`SequenceTask`; None counts as classes.
    """

    def __init__(
        self,
        cfg: SkipRNNConfig,
        input_size: int,
        output_size: int,
        embedding: Optional[nn.Embedding] = None,
        per_step: bool = False,
        encoder_flops: float = 0,
        predicts: Optional[str] = None,
    ):
        super().__init__()
        self.embedding = embedding
        self.per_step = per_step
        self.encoder_flops = encoder_flops
        self.predicts = predicts
        check_probability("--input-dropout", cfg.input_dropout)
        self.rnn = build_rnn(
            cfg,
            input_size,
            hidden_size=cfg.hidden_size,
            num_layers=cfg.num_layers,
            dropout=cfg.dropout,
            bidirectional=cfg.bidirectional,
        )
        self.has_gate = cfg.update_rule == "learned"
        self.decisions = RandomDecisions(cfg, cfg.bidirectional)
        self.num_directions = 2 if cfg.bidirectional else 1
        self.input_dropout = nn.Dropout(cfg.input_dropout)
        self.dropout = nn.Dropout(cfg.dropout)
        self.head = nn.Linear(self.num_directions * cfg.hidden_size, output_size)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def build_model(cls, cfg, task):
        """fairseq's constructor, for a task with the attributes of :class:`SequenceTask`.

        Raises:
            ValueError: the task does not have them, as fairseq's own tasks.
        """
        if not hasattr(task, "input_size"):
            raise cls.explain_misfit(cfg, task)
        sizes, embedding = (task.input_size, task.output_size), task.build_embedding()
        return cls(cfg, *sizes, embedding, task.per_step, task.encoder_flops, getattr(task, "predicts", None))

    @classmethod
    def from_pretrained(cls, model_name_or_path, checkpoint_file=None, data_name_or_path=".", user_dir=None, **kwargs):
        """As :func:`skiprnn_plugin.hub.from_pretrained`; ``data_name_or_path`` other than "." replaces ``--data``."""
        from ..hub import from_pretrained  # not at the top, as the hub imports fairseq, which may import this module

        if data_name_or_path != ".":
            kwargs["data"] = data_name_or_path
        return from_pretrained(model_name_or_path, checkpoint_file, user_dir, **kwargs)

    def forward(self, x: Tensor, lengths: Optional[Tensor] = None, seeds: Optional[Tensor] = None) -> SkipRNNOutput:
        """Read sequences and predict.

        Args:
            x: [B, T, input_size]; or token ids, int64 [B, T].
            lengths: real steps of each sequence, [B]; None means T.
            seeds: the seed of each sequence's random decisions, int64 [B]; None takes torch's generator instead. Only
                ``--update-rule random`` and ``--binarize bernoulli`` make random decisions.
        """
        batch, steps = x.shape[:2]
        if self.embedding is not None:
            x = self.embedding(x)
        x = self.input_dropout(x)
        output, state, updates = self.rnn(
            x, lengths=lengths, last_only=not self.per_step, **self.decisions.draw(x, seeds)
        )
        lengths = torch.full((batch,), steps, device=x.device) if lengths is None else lengths
        return SkipRNNOutput(
            self.head(self.dropout(output)),
            stack_directions(updates),
            self.num_directions * lengths.to(torch.int64),
            self.rnn.flops_per_update + self.encoder_flops,
            state.p if self.has_gate else None,
        )

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> None:
        """fairseq calls this before weights are loaded, see :func:`fit_gate`. ``name`` is the model's, or empty."""
        super().upgrade_state_dict_named(state_dict, name)
        fit_gate(state_dict, f"{name}." * bool(name) + "rnn.", self.rnn)

    def get_normalized_probs(self, net_output: SkipRNNOutput, log_probs: bool, sample=None) -> Tensor:
        """Class probabilities, in float32. Raises ValueError where the task does not predict classes."""
        predicts = getattr(self, "predicts", None)
        if predicts in ("labels", "numbers"):
            raise ValueError(
                f"--criterion: the task predicts {predicts}, expected {CRITERIONS[predicts]}, got one that asks for "
                "probabilities of classes"
            )
        normalize = torch.log_softmax if log_probs else torch.softmax
        return normalize(net_output.prediction.float(), -1)


register_architectures(SkipRNNConfig)
