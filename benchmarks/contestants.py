"""The contestants that are timed: the engines of ``skiprnn_plugin.ops``, and peers, which update at every step."""

import importlib.util
from functools import partial
from typing import Callable, Dict, NamedTuple, Optional

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from skiprnn_plugin.modules.convert import to_torch

from .problem import Problem

INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by their bytes


class Result(NamedTuple):
    """The results of a run.

    Attributes:
        output: the output after the last step, [B, H], or after every step, [B, T, H].
        updates: 1 where the gate updated, otherwise 0, [B, T]; None for a peer.
        gradients: the gradient of every weight, by the weight's name; empty in inference.
    """

    output: Tensor
    updates: Optional[Tensor] = None
    gradients: Dict[str, Tensor] = {}


class CannotRun(Exception):
    """A contestant can't run a problem; the message says why."""


class Contestant:
    """An engine or a peer that runs a problem. ``__init__`` prepares it and is not timed.

    Raises:
        CannotRun: the contestant can't run this problem. ``run`` may raise it too.
    """

    def __init__(self, problem: Problem, mode: str, threads: int):
        self.problem, self.mode = problem, mode

    def run(self, schedule: Optional[Tensor] = None) -> Result:
        """Run inference, or a training update: forward, loss and the gradients of all weights. With a ``schedule``,
        [B, T], an engine updates as it says instead of by the gate."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Change every weight, as an optimizer would. It is called before each training update that is timed, so that a
        contestant can't reuse a copy of the weights in another memory layout."""


class _Module(Contestant):
    """A contestant with torch parameters and autograd."""

    parameters: Dict[str, Tensor]
    weighting: Tensor  # see :class:`.problem.Problem`
    direction = 1  # in which refresh() changes numbers

    def forward(self, schedule):
        raise NotImplementedError

    def run(self, schedule=None):
        if self.mode == "inference":
            with torch.inference_mode():
                return Result(*self.forward(schedule))
        output, updates = self.forward(schedule)
        loss = self.problem.loss(output, updates, self.weighting)
        gradients = torch.autograd.grad(loss, list(self.parameters.values()), materialize_grads=True)
        return Result(output, updates, dict(zip(self.parameters, gradients)))

    @torch.no_grad()
    def refresh(self):
        """Replace one element of each matrix by the float next to it, and by the old one at the next call. So the
        values stay nearly the same."""
        if self.mode == "training":
            for matrix in (parameter for parameter in self.parameters.values() if parameter.dim() == 2):
                # the bits as an integer, as torch.nextafter has no float16
                matrix[0, :1].view(INTEGERS[matrix.element_size()]).add_(self.direction)
            self.direction = -self.direction


class Engine(_Module):
    """The problem's Skip RNN, run by one of our engines."""

    def __init__(self, problem, mode, threads, name):
        super().__init__(problem, mode, threads)
        self.name, self.parameters = name, dict(problem.model.named_parameters())
        self.weighting = problem.weighting

    def forward(self, schedule):
        model, last_only = self.problem.model, not self.problem.spec.shape.every_step
        model.engine = self.name
        try:
            output, _, updates = model(self.problem.x, schedule=schedule, last_only=last_only)
        except ValueError as error:
            if str(error).startswith("engine:"):  # the engine does not support this problem, which is not a fault
                raise CannotRun(str(error)) from None
            raise
        finally:
            model.engine = "reference"
        return output, updates


class Torch(_Module):
    """``nn.GRU`` or ``nn.LSTM``, with oneDNN or cuDNN where torch uses them. Input [T, B, D], its fastest layout."""

    def __init__(self, problem, mode, threads):
        super().__init__(problem, mode, threads)
        if problem.spec.cell == "gru_reset_before":
            raise CannotRun("torch has no GRU that resets before the recurrent product")
        self.module = to_torch(problem.model).train(mode == "training")
        self.module.batch_first = False
        self.parameters = dict(self.module.named_parameters())
        self.x = problem.x.transpose(0, 1).contiguous()
        self.weighting = problem.weighting
        if problem.spec.shape.every_step:
            self.weighting = self.weighting.transpose(0, 1).contiguous().transpose(0, 1)

    def forward(self, schedule):
        output, state = self.module(self.x)
        if self.problem.spec.shape.every_step:
            return output.transpose(0, 1), None
        return (state[0] if isinstance(state, tuple) else state)[-1], None


class TorchPacked(Torch):
    """The same as :class:`Torch`, but with packed sequences. All sequences have the full length."""

    def __init__(self, problem, mode, threads):
        super().__init__(problem, mode, threads)
        steps, batch = self.x.shape[:2]
        self.x = pack_padded_sequence(self.x, [steps] * batch)

    def forward(self, schedule):
        output, state = self.module(self.x)
        if self.problem.spec.shape.every_step:
            steps, batch = self.problem.spec.shape.steps, self.problem.spec.shape.batch
            return output.data.view(steps, batch, -1).transpose(0, 1), None
        return (state[0] if isinstance(state, tuple) else state)[-1], None


class OnnxRuntime(Contestant):
    """onnxruntime's GRU or LSTM operators on the CPU. Input [T, B, D], the only layout that they support."""

    def __init__(self, problem, mode, threads):
        super().__init__(problem, mode, threads)
        missing = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
        if missing:
            raise CannotRun(f"{' and '.join(missing)} not installed (pip install 'skiprnn-plugin[bench]')")
        if mode == "training" or problem.spec.dtype != torch.float32 or problem.spec.device != "cpu":
            raise CannotRun("it is measured only in float32 inference on the CPU")
        from .onnx_model import open_session

        self.session = open_session(problem.model, problem.spec.shape.every_step, threads)
        self.x = problem.x.transpose(0, 1).contiguous().numpy()

    def run(self, schedule=None):
        (output,) = self.session.run(None, {"x": self.x})
        output = torch.from_numpy(output)
        return Result(output.transpose(0, 1) if self.problem.spec.shape.every_step else output)


# To add a peer, add an entry here
PEERS: Dict[str, Callable[..., Contestant]] = {
    "torch": Torch,
    "torch-packed": TorchPacked,
    "onnxruntime": OnnxRuntime,
}


def prepare(name: str, problem: Problem, mode: str, threads: int) -> Contestant:
    """The peer of that name, or the engine of that name if no peer has it."""
    return PEERS.get(name, partial(Engine, name=name))(problem, mode, threads)
