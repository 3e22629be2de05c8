"""Record the calls of the Skip RNN modules of any model while it runs."""

import contextlib
import inspect
from typing import Iterator, List, NamedTuple, Optional

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from ..modules.skip_rnn import SkipRNNBase


class Call(NamedTuple):
    """One call of a Skip RNN module; B is the number of rows that it read.

    Attributes:
        module: the module.
        count: updates of each row, summed over the directions, [B].
        steps: real steps of each row, summed over the directions, [B].
        increment: update probability of each gate at the end of a row, [B] or [2, B]; None without a gate.
    """

    module: SkipRNNBase
    count: Tensor
    steps: Tensor
    increment: Optional[Tensor]


@contextlib.contextmanager
def listen(model: nn.Module) -> Iterator[List[Call]]:
    """A context that yields a list, to which every Skip RNN module within ``model`` adds its calls.

    The list ends with the context. So the calls that activation checkpointing repeats in the backward pass are not
    counted twice.

    Raises:
        ValueError: in a call, when a gate is trained but its updates have no gradient.
    """
    calls: List[Call] = []
    training = torch.is_grad_enabled()

    def hook(module, args, kwargs, result):
        arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        updates = result[2]
        if training and _learns(module, arguments) and not updates.requires_grad:
            raise ValueError(
                f"with_budget: the updates of a {type(module).__name__} have no gradient, as it ran under "
                "torch.no_grad. Activation checkpointing does so with use_reentrant=True (and in fairseq's "
                "checkpoint_wrapper): use torch.utils.checkpoint.checkpoint(..., use_reentrant=False)"
            )
        calls.append(_call(module, arguments, *result))

    handles = [
        module.register_forward_hook(hook, with_kwargs=True)
        for module in model.modules()
        if isinstance(module, SkipRNNBase)
    ]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _learns(module: SkipRNNBase, arguments: dict) -> bool:
    """Whether a gate that is being trained decides the updates of the call."""
    gate = module.update_weight is not None and arguments.get("schedule") is None
    return gate and any(parameter.requires_grad for parameter in module.parameters())


def _call(module: SkipRNNBase, arguments: dict, output, state, updates: Tensor) -> Call:
    count, steps = updates.sum(-1), _real_steps(arguments, updates)
    if module.bidirectional:
        count, steps = count.sum(0), 2 * steps
    return Call(module, count, steps, None if module.update_weight is None else state.p)


def _real_steps(arguments: dict, updates: Tensor) -> Tensor:
    """Real steps of each row, [B], from the arguments of ``SkipRNNBase.forward``."""
    batch, steps = updates.shape[-2:]
    lengths, mask = arguments.get("lengths"), arguments.get("padding_mask")
    if isinstance(arguments["x"], PackedSequence):
        lengths = pad_packed_sequence(arguments["x"])[1]
    elif mask is not None:
        lengths = (~mask).sum(1)  # the call has checked it
    elif lengths is None:
        lengths = steps
    return torch.as_tensor(lengths, dtype=torch.int64, device=updates.device).expand(batch)
