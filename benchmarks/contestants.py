"""The contestants that are timed: the engines of ``skiprnn_plugin.ops``, and peers, which update at every step."""

import importlib.util
from functools import partial
from typing import Callable, Dict, NamedTuple, Optional

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from skiprnn_plugin.modules.convert import to_torch

from .problem import Problem


class Result(NamedTuple):
    """The results of a run.

    Attributes:
        output: after the last step, [B, H], or after every step, [B, T, H].
        updates: the gate's, [B, T]; None for a peer.
        gradients: of every weight, by its name; empty in inference.
    """

    output: Tensor
    updates: Optional[Tensor] = None
    gradients: Dict[str, Tensor] = {}


class CannotRun(Exception):
    """Why a contestant takes no part in a problem."""


class Contestant:
    """One that can run a problem. Preparing, which is not timed, is ``__init__``'s.

    Raises:
        CannotRun: by ``__init__``, or by ``run``.
    """

    def __init__(self, problem: Problem, mode: str, threads: int):
        self.problem, self.mode = problem, mode

    def run(self, schedule: Optional[Tensor] = None) -> Result:
        """Inference, or a training step: forward, loss and the gradients of all weights. An engine takes its updates
        from the schedule, if there is one."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Before each training step that is timed: change every weight, as an optimizer would, so that what a step laid
        out by the weights' values is of no use to the next."""


class _Module(Contestant):
    """One with parameters and autograd."""

    parameters: Dict[str, Tensor]
    weighting: Tensor  # the loss's
    direction = torch.inf  # of the next change

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
        """One number of each matrix goes to the next one up, and back the next time: values stay what they were."""
        if self.mode == "training":
            for matrix in (parameter for parameter in self.parameters.values() if parameter.dim() == 2):
                number = matrix[0, :1]
                number.copy_(torch.nextafter(number, torch.full_like(number, self.direction)))
            self.direction = -self.direction


class Engine(_Module):
    """The problem's Skip RNN by one of our engines."""

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
            if str(error).startswith("engine:"):  # that it cannot do this, which is no fault
                raise CannotRun(str(error)) from None
            raise
        finally:
            model.engine = "reference"
        return output, updates


class Torch(_Module):
    """``nn.GRU`` or ``nn.LSTM``, with oneDNN or cuDNN where torch uses them; input [T, B, D], which they like best."""

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
    """The same with packed sequences, all of full length."""

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
    """onnxruntime's GRU or LSTM operators, on the CPU; input [T, B, D], the only layout they take."""

    def __init__(self, problem, mode, threads):
        super().__init__(problem, mode, threads)
        missing = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
        if missing:
            raise CannotRun(f"{' and '.join(missing)} not installed (pip install 'skiprnn-plugin[bench]')")
        if mode == "training" or problem.spec.dtype != torch.float32 or problem.spec.device != "cpu":
            raise CannotRun("takes part in float32 inference on the CPU alone")
        from .onnx_model import open_session

        self.session = open_session(problem.model, problem.spec.shape.every_step, threads)
        self.x = problem.x.transpose(0, 1).contiguous().numpy()

    def run(self, schedule=None):
        (output,) = self.session.run(None, {"x": self.x})
        output = torch.from_numpy(output)
        return Result(output.transpose(0, 1) if self.problem.spec.shape.every_step else output)


# A further peer is one entry
PEERS: Dict[str, Callable[..., Contestant]] = {
    "torch": Torch,
    "torch-packed": TorchPacked,
    "onnxruntime": OnnxRuntime,
}


def prepare(name: str, problem: Problem, mode: str, threads: int) -> Contestant:
    """The peer, or else the engine, of that name."""
    return PEERS.get(name, partial(Engine, name=name))(problem, mode, threads)
