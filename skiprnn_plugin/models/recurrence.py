"""What the plugin's models have in common: the options of a Skip RNN, the module that they describe, its random
decisions, the gate's weights in a checkpoint of another model, architectures."""

import logging
from dataclasses import dataclass, field, fields
from typing import Dict, List, Optional, Type

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model_architecture
from torch import Tensor

from ..arguments import as_option, as_option_errors, check_choice, check_probability
from ..dials import DIALS, find_dials
from ..modules import SkipGRU, SkipLSTM, SkipRNN
from ..modules.skip_rnn import SkipRNNBase
from ..ops import uniform

# Update rules, and what the names of their architectures begin with
UPDATE_RULES = {"learned": "skip", "random": "random_skip", "full": "full"}
CELLS = ("lstm", "gru")  # the cells that have architectures
GATE = "update_"  # what the names of the parameters begin with that only a module with a learned gate has

logger = logging.getLogger(__name__)


@dataclass
class RecurrenceConfig(FairseqDataclass):
    cell: str = field(default="gru", metadata={"help": "recurrent cell: lstm, gru or rnn (--arch sets lstm or gru)"})
    update_rule: str = field(
        default="learned",
        metadata={
            "help": "which steps are updated: learned (the gate decides), random (each step is skipped with "
            "probability --skip-prob) or full (every step); --arch sets it"
        },
    )
    zoneout: float = field(
        default=0.0, metadata={"help": "probability that a unit keeps its old value at a step, in training"}
    )
    recurrent_dropout: float = field(
        default=0.0,
        metadata={"help": "dropout of what a step writes into the state; the state itself is not dropped"},
    )
    binarize: str = field(default="round", metadata={"help": "how the gate decides: round or bernoulli"})
    update_threshold: float = field(
        default=0.5,
        metadata={
            "help": "the gate updates where its value is above this number; on a trained model, a higher one skips more"
        },
    )
    min_skip: int = field(
        default=0, metadata={"help": "in evaluation, how many steps are skipped after an update at least"}
    )
    max_skip: Optional[int] = field(
        default=None,
        metadata={"help": "in evaluation, how many steps are skipped after an update at most (default: no limit)"},
    )
    update_bias: float = field(default=1.0, metadata={"help": "initial bias of the gate"})
    gate_init: str = field(
        default="authors",
        metadata={"help": "initial weights of the gate: authors, or zeros, which helps a gate that closes early"},
    )
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
    chrono_init: int = field(
        default=0,
        metadata={
            "help": "T of the chrono initialisation, with which units start with memories of up to T updates, for "
            "sequences of hundreds of steps (0: none)"
        },
    )
    engine: str = field(
        default="auto", metadata={"help": "engine that runs the recurrence: auto, native, triton, indexed or reference"}
    )


def build_rnn(cfg: RecurrenceConfig, input_size: int, **sizes) -> SkipRNNBase:
    """The Skip RNN that the options describe.

    Args:
        cfg: the options.
        input_size: features of the input.
        sizes: further arguments of the module, which are options of other names in other models.

    Raises:
        ValueError: an option with a wrong value; the message names it.
    """
    check_choice("--cell", cfg.cell, ("lstm", "gru", "rnn"))
    check_choice("--update-rule", cfg.update_rule, UPDATE_RULES)
    check_choice("--gru-reset", cfg.gru_reset, ("after", "before"))
    if not 0 <= cfg.skip_prob <= 1:
        raise ValueError(f"--skip-prob: expected a probability in [0, 1], got {cfg.skip_prob}")
    turned = find_dials({name: getattr(cfg, name) for name in DIALS})
    if turned and (cfg.update_rule != "learned" or cfg.binarize != "round"):
        name, value = next(iter(turned.items()))
        raise ValueError(
            f"{as_option(name)}: expected {DIALS[name]} for a model without a gate that rounds, got {value}"
        )
    threshold = check_probability("--update-threshold", cfg.update_threshold)
    if torch.tensor(threshold, dtype=torch.float32) == 1:  # no sum of update probabilities would exceed it
        raise ValueError(
            f"--update-threshold: expected a probability in [0, 1), got {threshold!r}, which is 1 in float32"
        )
    names = ("zoneout", "recurrent_dropout", "binarize", "update_bias", "gate_init", "gate_layers")
    names += ("layer_norm", "init", "chrono_init", "engine", "min_skip", "max_skip")
    options = {name: getattr(cfg, name) for name in names}
    options.update(sizes, gate=cfg.update_rule == "learned", threshold=threshold)
    if cfg.cell == "gru":
        options["reset_after"] = cfg.gru_reset == "after"
    modules = {"lstm": SkipLSTM, "gru": SkipGRU, "rnn": SkipRNN}
    with as_option_errors(options):
        return modules[cfg.cell](input_size, **options)


def fit_gate(weights: Dict[str, Tensor], prefix: str, rnn: SkipRNNBase) -> None:
    """Let a checkpoint of a Skip RNN without a gate be loaded into one with a gate, which keeps its present weights,
    and the other way round. So a baseline can be trained further as a model that learns to skip.

    Args:
        weights: those of the checkpoint, which are changed.
        prefix: what the names of the Skip RNN's weights begin with.
        rnn: the Skip RNN that they are for.
    """
    stored = [name for name in weights if name.startswith(prefix + GATE)]
    needed = {prefix + name: value for name, value in rnn.state_dict().items() if name.startswith(GATE)}
    if f"{prefix}weight_hh_l0" not in weights or bool(stored) == bool(needed):
        return  # not of a Skip RNN, or no difference
    if stored:
        logger.info("the model has no gate: the checkpoint's is left out")
        for name in stored:
            del weights[name]
    else:
        logger.info("the checkpoint has no gate: the model's keeps its initial weights")
        weights.update(needed)


class RandomDecisions:
    """The decisions of a model that skips at random (``--update-rule random``, ``--binarize bernoulli``). A model of
    another kind makes none.

    Args:
        cfg: the options.
        bidirectional: whether the module that is to follow the decisions has two directions.

    Attributes:
        exist: whether the model makes any.
    """

    def __init__(self, cfg: RecurrenceConfig, bidirectional: bool):
        self.skip_prob = cfg.skip_prob if cfg.update_rule == "random" else None
        self.draws_updates = cfg.update_rule == "learned" and cfg.binarize == "bernoulli"
        self.exist = self.skip_prob is not None or self.draws_updates
        self.directions = 2 if bidirectional else 1

    def draw(self, x: Tensor, seeds: Optional[Tensor] = None, positions: Optional[Tensor] = None) -> Dict[str, Tensor]:
        """What the module's ``forward`` needs besides its input: ``schedule`` or ``noise``, [B, T], or [2, B, T] for
        two directions; or nothing.

        Args:
            x: the input, whose first dimensions are B and T.
            seeds: the seed of each sequence, int64 [B], on which alone its decisions then depend, not on its batch;
                None takes torch's generator.
            positions: the place of each step in its sequence, counted from 0, int64 [B, T], for sequences that do not
                begin at step 0; any place at padding.
        """
        if not self.exist:
            return {}
        batch, steps = x.shape[:2]
        draws = self.directions * steps
        if seeds is None:  # in float32, as half precision has too few numbers
            numbers = torch.rand(batch, draws, device=x.device, dtype=torch.float32)
        else:
            numbers = uniform(seeds, draws)
        # the directions alternate, so that padding at the end does not change the numbers of the steps before it
        numbers = numbers.view(batch, steps, self.directions).permute(2, 0, 1)
        if positions is not None:
            numbers = numbers.gather(2, positions.expand(self.directions, -1, -1))
        if self.directions == 1:
            numbers = numbers[0]
        return {"noise": numbers} if self.skip_prob is None else {"schedule": numbers >= self.skip_prob}


def stack_directions(updates: Tensor) -> Tensor:
    """The updates that a module returns, [B, T] or [2, B, T], as models return them, [B, directions, T]."""
    return updates.unsqueeze(1) if updates.dim() == 2 else updates.transpose(0, 1)


def name_architecture(cfg: RecurrenceConfig) -> str:
    """The architecture of the model ``skip_rnn`` with this cell and update rule, as in ``skip_lstm``. For a cell
    without an architecture it is that of a GRU, to which ``--cell`` can be given."""
    return f"{UPDATE_RULES.get(cfg.update_rule, 'skip')}_{cfg.cell if cfg.cell in CELLS else 'gru'}"


def register_architectures(config: Type[RecurrenceConfig], ending: str = "") -> None:
    """Register the six architectures of the model ``skip_rnn`` + ``ending``, such as ``skip_lstm`` + ``ending``, for
    every update rule and cell.

    Args:
        config: the model's options, which the architectures complete.
        ending: how the names of the model and its architectures end.
    """
    for rule, prefix in UPDATE_RULES.items():
        for cell in CELLS:
            values = {"cell": cell, "update_rule": rule}
            _register_architecture(f"skip_rnn{ending}", config, values, f"{prefix}_{cell}{ending}")


def _register_architecture(model: str, config: Type[RecurrenceConfig], values: dict, name: str) -> None:
    @register_model_architecture(model, name)
    def architecture(args):
        defaults = {option.name: option.default for option in fields(config) if option.name != "_name"}
        # a checkpoint lacks the options that its version did not have
        for option, default in {**defaults, **values}.items():
            if option not in args:
                setattr(args, option, default)
