"""The fairseq model ``skip_rnn`` and its architectures: Skip RNNs with a linear head, and the paper's baselines."""

from dataclasses import dataclass, field, fields
from typing import List, NamedTuple, Optional

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model, register_model_architecture
from torch import Tensor, nn

from ..arguments import as_option_errors, check_choice
from ..modules import SkipGRU, SkipLSTM, SkipRNN
from ..ops import uniform
from ..predictions import CRITERIONS


@dataclass
class SkipRNNConfig(FairseqDataclass):
    cell: str = field(default="gru", metadata={"help": "recurrent cell: lstm, gru or rnn (--arch sets lstm or gru)"})
    update_rule: str = field(
        default="learned",
        metadata={
            "help": "which steps are updated: learned (the gate decides), random (each step is skipped with "
            "probability --skip-prob) or full (every step); --arch sets it"
        },
    )
    hidden_size: int = field(default=110, metadata={"help": "units of each layer"})
    num_layers: int = field(default=1, metadata={"help": "number of layers; one gate decides for all of them"})
    dropout: float = field(default=0.0, metadata={"help": "dropout between layers and before the head"})
    input_dropout: float = field(
        default=0.0, metadata={"help": "dropout of the input's features, or of the embeddings of token ids"}
    )
    zoneout: float = field(
        default=0.0, metadata={"help": "probability that a unit keeps its old value at a step, in training"}
    )
    recurrent_dropout: float = field(
        default=0.0,
        metadata={"help": "dropout of what a step writes into the state; the state itself is not dropped"},
    )
    bidirectional: bool = field(
        default=False,
        metadata={"help": "read the reversed sequence too, in a second stack with a separate gate"},
    )
    binarize: str = field(default="round", metadata={"help": "how the gate decides: round or bernoulli"})
    update_bias: float = field(default=1.0, metadata={"help": "initial bias of the gate"})
    gate_layers: Optional[List[int]] = field(
        default=None,
        metadata={"help": "layers whose states the gate reads, numbered from 0, as in 0,1 (default: the top layer)"},
    )
    skip_prob: float = field(default=0.5, metadata={"help": "probability of skipping a step (random architectures)"})
    gru_reset: str = field(
        default="after",
        metadata={
            "help": "where a GRU applies its reset gate: after the recurrent matrix product (torch, cuDNN) or before "
            "(the paper)"
        },
    )
    layer_norm: bool = field(default=False, metadata={"help": "layer norm in each of the cell's gates"})
    init: str = field(default="authors", metadata={"help": "initial weights: authors or torch"})
    engine: str = field(
        default="auto", metadata={"help": "engine that runs the recurrence: auto, native, triton, indexed or reference"}
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
class SkipRNNModel(BaseFairseqModel):
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
        check_choice("--cell", cfg.cell, ("lstm", "gru", "rnn"))
        check_choice("--update-rule", cfg.update_rule, ("learned", "random", "full"))
        check_choice("--gru-reset", cfg.gru_reset, ("after", "before"))
        if not 0 <= cfg.skip_prob <= 1:
            raise ValueError(f"--skip-prob: expected a probability in [0, 1], got {cfg.skip_prob}")
        if not 0 <= cfg.input_dropout < 1:
            raise ValueError(f"--input-dropout: expected a probability in [0, 1), got {cfg.input_dropout}")
        self.skip_prob = cfg.skip_prob if cfg.update_rule == "random" else None
        self.has_gate = cfg.update_rule == "learned"
        self.draws_updates = self.has_gate and cfg.binarize == "bernoulli"
        options = {
            "num_layers": cfg.num_layers,
            "dropout": cfg.dropout,
            "bidirectional": cfg.bidirectional,
            "zoneout": cfg.zoneout,
            "recurrent_dropout": cfg.recurrent_dropout,
            "gate": self.has_gate,
            "binarize": cfg.binarize,
            "update_bias": cfg.update_bias,
            "gate_layers": cfg.gate_layers,
            "layer_norm": cfg.layer_norm,
            "init": cfg.init,
            "engine": cfg.engine,
        }
        modules = {"lstm": SkipLSTM, "gru": SkipGRU, "rnn": SkipRNN}
        if cfg.cell == "gru":
            options["reset_after"] = cfg.gru_reset == "after"
        with as_option_errors({"hidden_size", *options}):
            self.rnn = modules[cfg.cell](input_size, cfg.hidden_size, **options)
        self.num_directions = 2 if cfg.bidirectional else 1
        self.input_dropout = nn.Dropout(cfg.input_dropout)
        self.dropout = nn.Dropout(cfg.dropout)
        self.head = nn.Linear(self.num_directions * cfg.hidden_size, output_size)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def build_model(cls, cfg, task):
        """fairseq's constructor, for a task with the attributes of :class:`SequenceTask`."""
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
        schedule = noise = None
        if self.skip_prob is not None:
            schedule = self._draw(x, seeds) >= self.skip_prob
        elif self.draws_updates:
            noise = self._draw(x, seeds)
        output, state, updates = self.rnn(
            x, lengths=lengths, schedule=schedule, noise=noise, last_only=not self.per_step
        )
        lengths = torch.full((batch,), steps, device=x.device) if lengths is None else lengths
        return SkipRNNOutput(
            self.head(self.dropout(output)),
            updates.unsqueeze(1) if self.num_directions == 1 else updates.transpose(0, 1),
            self.num_directions * lengths.to(torch.int64),
            self.rnn.flops_per_update + self.encoder_flops,
            state.p if self.has_gate else None,
        )

    def _draw(self, x: Tensor, seeds: Optional[Tensor]) -> Tensor:
        """Draw uniform numbers, [B, T], or [2, B, T] for two directions."""
        batch, steps = x.shape[:2]
        draws = self.num_directions * steps
        numbers = torch.rand(batch, draws, device=x.device) if seeds is None else uniform(seeds, draws)
        # the directions alternate, so that padding at the end does not change the numbers of the steps before it
        return numbers if self.num_directions == 1 else numbers.view(batch, steps, 2).permute(2, 0, 1)

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


def _register_architecture(rule: str, cell: str, name: str) -> None:
    @register_model_architecture("skip_rnn", name)
    def architecture(args):
        defaults = {option.name: option.default for option in fields(SkipRNNConfig) if option.name != "_name"}
        # a checkpoint lacks the options that its version did not have
        for option, default in {**defaults, "cell": cell, "update_rule": rule}.items():
            if option not in args:
                setattr(args, option, default)


for _rule, _prefix in (("learned", "skip"), ("random", "random_skip"), ("full", "full")):
    for _cell in ("lstm", "gru"):
        _register_architecture(_rule, _cell, f"{_prefix}_{_cell}")
