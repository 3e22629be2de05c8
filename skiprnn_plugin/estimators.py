"""Skip RNNs in the manner of scikit-learn: a model that is trained on your recordings in a few lines."""

import inspect
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from .arguments import check_size
from .estimator_inputs import ONE, Recordings, as_labels, as_recordings, as_targets, fingerprint, name_classes
from .parameters import PLANNED, describe, read_params
from .quiet import quiet_imports
from .reading import LARGEST
from .writing import write_whole

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import NotFittedError
except ImportError:  # scikit-learn is optional

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """Raised by an estimator that is used before it is fitted."""

    class BaseEstimator:  # type: ignore[no-redef]
        """The part of scikit-learn's class that an estimator needs without it."""

        def get_params(self, deep: bool = True) -> Dict[str, Any]:
            return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

        def set_params(self, **params: Any):
            for name, value in params.items():
                if name not in self.get_params():
                    raise ValueError(f"{name}: expected one of {', '.join(self.get_params())}")
                setattr(self, name, value)
            return self

    class ClassifierMixin:  # type: ignore[no-redef]
        """The part of scikit-learn's class that a classifier needs without it."""

        def score(self, X, y) -> float:
            return float(np.mean(self.predict(X) == np.asarray(y)))

    class RegressorMixin:  # type: ignore[no-redef]
        """The part of scikit-learn's class that a regressor needs without it."""

        def score(self, X, y) -> float:
            targets, _ = as_targets(y, len(X))
            error = ((self.predict(X).reshape(targets.shape) - targets) ** 2).sum(0)
            spread = ((targets - targets.mean(0)) ** 2).sum(0)
            constant = np.where(error > 0, 0.0, 1.0)  # as scikit-learn counts targets that do not differ
            return float(np.mean(np.where(spread > 0, 1 - error / np.where(spread > 0, spread, 1), constant)))


class Labels(NamedTuple):
    """What recordings are labelled with.

    Attributes:
        texts: the label of each recording, as the manifest holds it, [N].
        names: the classes; None if the labels are numbers to predict.
        groups: which of the recordings to divide alike: the number of the class of each; 0 without classes, [N].
        fitted: what :meth:`SkipRNNEstimator._restore` needs, in plain types of Python.
    """

    texts: List[str]
    names: Optional[List[str]]
    groups: List[int]
    fitted: Dict[str, Any]


class SkipRNNEstimator(BaseEstimator):
    """The common part of :class:`SkipRNNClassifier` and :class:`SkipRNNRegressor`.

    Recordings are a list of N arrays [T, D], T samples of D numbers, where T may differ; or one array [N, T, D], or
    [N, T] for one number in a sample. One recording is a list of one array.

    Args:
        cell: ``gru`` or ``lstm``.
        hidden_size: units of a layer.
        num_layers: layers, for all of which one gate decides.
        target_fraction: fraction of the samples to use; None lets the model use all that help it.
        learning_rate: of Adam.
        batch_size: recordings of a training update, and of a batch in prediction.
        max_updates: training updates.
        validation_fraction: fraction of the recordings (of each class) that are not trained on, by which the best of
            several checkpoints is chosen.
        normalize: whether to bring each of the D numbers to mean 0 and standard deviation 1.
        progress: whether to show a progress bar on a terminal.
        random_state: seed of the initial weights, of the recordings held out and of the batches; None draws one.
        device: ``cpu`` or ``cuda``, to train and to predict on; None trains on a GPU if there is one, and predicts on
            the CPU.
        good_enough: an accuracy, or for a regressor a mean squared error (of several outputs, the mean over them). Of
            the checkpoints that reach it on the recordings held out, the one that uses the fewest samples is kept.
            None: one of the best checkpoints is kept, if possible one that has reached ``target_fraction``.

    Attributes:
        n_features_in_: D.
        history_: what was measured on the recordings held out, during training: ``accuracy`` or ``mse``,
            ``update_fraction`` (the fraction of the samples used), ``num_updates`` (training updates until then) and
            others.
        checkpoint_: the content of the checkpoint that was kept, a file of fairseq, which :meth:`save` writes.
    """

    _predicts: str

    def __init__(
        self,
        cell: str = "gru",
        hidden_size: int = 64,
        num_layers: int = 1,
        target_fraction: Optional[float] = None,
        learning_rate: float = 2e-3,
        batch_size: int = 32,
        max_updates: int = 3000,
        validation_fraction: float = 0.2,
        normalize: bool = True,
        progress: bool = True,
        random_state: Optional[int] = None,
        device: Optional[str] = None,
        good_enough: Optional[float] = None,
    ):
        self.cell = cell
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.target_fraction = target_fraction
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_updates = max_updates
        self.validation_fraction = validation_fraction
        self.normalize = normalize
        self.progress = progress
        self.random_state = random_state
        self.device = device
        self.good_enough = good_enough

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "checkpoint_")

    def fit(self, X: Recordings, y: Sequence[Any]):
        """Train on recordings and their labels.

        Raises:
            ValueError: an argument or a recording is wrong; the message names it.
        """
        params = read_params(self.get_params(deep=False), self._predicts)
        # Without normalising, the model reads the numbers themselves, as float32
        arrays = as_recordings(X, LARGEST if params["normalize"] else float(np.finfo(np.float32).max))
        if y is None:
            raise ValueError(f"y: {type(self).__name__} requires y to be passed, but the target y is None")
        with quiet_imports():
            from .prepare.splits import divide_classes
            from .prepare.write_features import Source, write_features
            from .training import choose_checkpoint, plan_training, train
        labels, seed = self._read_labels(y, len(arrays)), params["random_state"]
        splits = divide_classes(labels.groups, {"valid": params["validation_fraction"]}, seed)
        if "valid" not in splits:
            if labels.names is None:
                raise ValueError(f"X: expected at least two recordings, got {len(arrays)}")
            raise ValueError("X: expected at least one class with two recordings, got one recording of each class")
        rows = [
            {"sequence": str(place), "split": split, "label": text}
            for place, (split, text) in enumerate(zip(splits, labels.texts))
        ]
        options = {name: params[name] for name in PLANNED}
        choose = choose_checkpoint(self._predicts, params["target_fraction"], params["good_enough"])
        # float32 can't tell large numbers that differ little, such as times
        is_exact = all(np.can_cast(array.dtype, np.float32) for array in arrays)
        with tempfile.TemporaryDirectory() as folder:
            source = Source(Path(folder), rows, arrays[0].shape[1], labels.names, arrays.__getitem__)
            write_features(source, Path(folder), "float32" if is_exact else "float64", {})
            plan = plan_training(Path(folder), self._predicts, seed=seed, **options)
            extra = {**describe(params, self._predicts, **labels.fitted), "data": fingerprint(arrays, labels.texts)}
            checkpoint, history = train(plan, choose, params["progress"], extra)
        hub = load_hub(checkpoint)
        # Together and at the end, so that a training that fails leaves the estimator as it was
        self.n_features_in_ = arrays[0].shape[1]
        self.checkpoint_, self.history_, self._hub = checkpoint, history, hub
        self._restore(labels.fitted)
        return self

    def _read_labels(self, y: Sequence[Any], size: int) -> Labels:
        """Raises ValueError if ``y`` is wrong."""
        raise NotImplementedError

    def _restore(self, fitted: Dict[str, Any]) -> None:
        """Set the attributes that come from the labels."""
        raise NotImplementedError

    @property
    def hub_(self):
        """The trained model as a :class:`skiprnn_plugin.hub.SkipRNNHub`."""
        if not hasattr(self, "checkpoint_"):
            raise NotFittedError(f"{type(self).__name__}: expected a call of fit before, got none")
        if getattr(self, "_hub", None) is None:
            self._hub = load_hub(self.checkpoint_)
        return self._hub.to(self._find_device())

    def _find_device(self) -> str:
        """The device to predict on: the CPU if a model for a GPU is used on a machine without one."""
        if self.device == "cuda":
            import torch

            if torch.cuda.is_available():
                return "cuda"
            warnings.warn("device: torch finds no GPU here, so the model predicts on the CPU", stacklevel=4)
        return "cpu"

    def __getstate__(self):
        return {**self.__dict__, "_hub": None}  # it is loaded again from the checkpoint

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update({"good_enough": None, **state})  # which earlier versions lack

    def used_samples(self, X: Recordings) -> List[np.ndarray]:
        """Which samples the model used: bool [T] for each recording."""
        return self._call("used_samples", X)

    def _call(self, method: str, X: Recordings) -> Any:
        """What a method of the hub returns for recordings. Raises ValueError if they are wrong."""
        arrays = self._check(X)
        try:
            return getattr(self.hub_, method)(arrays, batch_size=self.batch_size)
        except ValueError as error:  # a number may be too large once it is normalised
            if not str(error).startswith("arrays["):  # the hub's name for X
                raise
            raise ValueError(f"X{str(error).removeprefix('arrays')}") from error

    def _check(self, X: Recordings) -> List[np.ndarray]:
        """Recordings as arrays [T, D]; ValueError if they are none, or NotFittedError."""
        self.hub_  # noqa: B018  (an estimator that is not fitted says so first)
        check_size("batch_size", self.batch_size)  # set_params may have changed it
        width = self.n_features_in_
        if getattr(X, "ndim", None) == 2 and (width > 1 or X.shape[1] == 1):  # also a tensor of torch
            raise ValueError(
                f"X: expected a list of arrays [T, {width}], or an array [N, T, {width}], got one array "
                f"{tuple(X.shape)}. {ONE}"
            )
        arrays = as_recordings(X)
        if arrays[0].shape[1] != width:
            raise ValueError(f"X: expected {width} numbers in a sample, got {arrays[0].shape[1]}")
        return arrays

    def save(self, path: Union[str, Path]) -> None:
        """Write the model to a file: a checkpoint of fairseq, which ``skiprnn-predict`` and ``load`` read."""
        self.hub_  # noqa: B018
        write_whole(Path(path), self.checkpoint_)

    @classmethod
    def load(cls, path: Union[str, Path]):
        """Read a file that :meth:`save` has written, or the model in a folder of ``skiprnn-train``.

        Raises:
            FileNotFoundError: the file does not exist, or the folder holds no model.
            ValueError: the file was not written by ``save``, or by that of another class.
        """
        with quiet_imports():
            from .checkpoints import find_checkpoint, read_state
        path = find_checkpoint(path)
        extra = read_state(path)["extra_state"]
        state = extra.get("estimator")
        if state is None:
            raise ValueError(
                f"{path}: expected a file that {cls.__name__}.save or skiprnn-train has written, got another checkpoint"
            )
        predicts = state.get("predicts", "classes")  # earlier versions had no other
        if predicts != cls._predicts:
            other = {"classes": SkipRNNClassifier, "numbers": SkipRNNRegressor}[predicts].__name__
            raise ValueError(f"{path}: expected a model that predicts {cls._predicts}, got one for {other}.load")
        self = cls(**state["params"])
        self.checkpoint_, self.history_ = path.read_bytes(), extra["history"]
        self.n_features_in_ = self.hub_.task.input_size
        self._restore(state)
        return self


class SkipRNNClassifier(ClassifierMixin, SkipRNNEstimator):
    """A Skip LSTM or Skip GRU that tells the classes of recordings and reads only some of their samples.

    Recordings are a list of N arrays [T, D], T samples of D numbers, where T may differ; or one array [N, T, D], or
    [N, T] for one number in a sample. The labels are N whole numbers, bools or texts. The arguments are those of
    :class:`SkipRNNEstimator`.

    Attributes:
        classes_: the classes, sorted; those of a model of ``skiprnn-train`` are in the order of its data.
        n_features_in_, history_, checkpoint_: see :class:`SkipRNNEstimator`.
    """

    _predicts = "classes"

    def _read_labels(self, y: Sequence[Any], size: int) -> Labels:
        labels = as_labels(y, size)
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y: expected at least two classes, got one class, {classes.tolist()}")
        names = name_classes(classes)
        fitted = {"classes": classes.tolist(), "dtype": classes.dtype.str}
        return Labels([names[number] for number in numbers], names, numbers.tolist(), fitted)

    def _restore(self, fitted: Dict[str, Any]) -> None:
        if "classes" in fitted:
            self.classes_ = np.array(fitted["classes"], dtype=fitted["dtype"])
            return
        names = self.hub_.class_names  # of skiprnn-train, which writes numbers as texts
        is_numbers = all(re.fullmatch("0|-?[1-9][0-9]{0,17}", name) for name in names)
        self.classes_ = np.array([int(name) for name in names] if is_numbers else names)

    def predict_proba(self, X: Recordings) -> np.ndarray:
        """The probability of each of ``classes_``, [N, classes]."""
        return self._call("predict", X)

    def predict(self, X: Recordings) -> np.ndarray:
        """The likeliest class of each recording, [N]."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]


class SkipRNNRegressor(RegressorMixin, SkipRNNEstimator):
    """A Skip LSTM or Skip GRU that predicts numbers for recordings and reads only some of their samples.

    Recordings are a list of N arrays [T, D], T samples of D numbers, where T may differ; or one array [N, T, D], or
    [N, T] for one number in a sample. The targets are numbers [N] or [N, outputs]; the model is trained on them at mean
    0 and standard deviation 1, and predicts in their unit. The arguments are those of :class:`SkipRNNEstimator`.

    Attributes:
        n_features_in_, history_, checkpoint_: see :class:`SkipRNNEstimator`.
    """

    _predicts = "numbers"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _read_labels(self, y: Sequence[Any], size: int) -> Labels:
        from .data.targets import write_target

        targets, is_flat = as_targets(y, size)
        return Labels([write_target(row) for row in targets], None, [0] * size, {"is_flat": is_flat})

    def _restore(self, fitted: Dict[str, Any]) -> None:
        self._is_flat = fitted["is_flat"] if "is_flat" in fitted else self.hub_.task.output_size == 1

    def predict(self, X: Recordings) -> np.ndarray:
        """The predicted numbers, float64 in the shape of the targets: [N] or [N, outputs]."""
        values = self._call("predict", X)
        return values[:, 0] if self._is_flat else values


def load_hub(checkpoint: bytes):
    """The model of a checkpoint as a :class:`skiprnn_plugin.hub.SkipRNNHub`."""
    with quiet_imports():
        from .hub import from_pretrained
        from .training import usual_torch

    # Loading draws initial weights before it replaces them
    with usual_torch(0), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        path.write_bytes(checkpoint)
        return from_pretrained(path)
