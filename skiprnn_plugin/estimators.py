"""Skip RNNs in the manner of scikit-learn: a thrifty model of one's own recordings in a few lines."""

import inspect
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Union

import numpy as np

from .arguments import check_choice, check_flag, check_size

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
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


Recordings = Union[np.ndarray, Sequence[np.ndarray]]
CELLS = ("lstm", "gru")


class SkipRNNClassifier(ClassifierMixin, BaseEstimator):
    """A Skip LSTM or Skip GRU that tells the classes of recordings and reads only some of their samples.

    Recordings are a list of N arrays [T, D], T samples of D numbers, where T may differ; or one array [N, T, D], or
    [N, T] for one number in a sample.

    Args:
        cell: ``gru`` or ``lstm``.
        hidden_size: units of a layer.
        num_layers: layers, for all of which one gate decides.
        target_fraction: fraction of the samples to use; None lets the model use all that help it.
        learning_rate: of Adam.
        batch_size: recordings of a training update.
        max_updates: training updates.
        validation_fraction: fraction of the recordings of each class that are not trained on, by which the best of
            several stages of the model is chosen.
        normalize: whether to bring each of the D numbers to mean 0 and standard deviation 1.
        progress: whether to show a progress bar on a terminal.
        random_state: seed of the initial weights, of the recordings held out and of the batches; None draws one.

    Attributes:
        classes_: the classes, sorted.
        n_features_in_: D.
        history_: what was measured on the recordings held out, during training: ``accuracy``, ``update_fraction`` (the
            fraction of the samples used), ``num_updates`` (training updates until then) and others.
        checkpoint_: the content of fairseq's checkpoint of the best stage, which :meth:`save` writes.
    """

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

    def fit(self, X: Recordings, y: Sequence[Any]) -> "SkipRNNClassifier":
        """Train on recordings and their classes, N labels of any type that can be sorted.

        Raises:
            ValueError: an argument or a recording is wrong; the message names it.
        """
        from .prepare.splits import divide_classes
        from .prepare.write_features import Source, write_features
        from .training import plan_classifier, rank_by_target, train

        self._check_params()
        arrays = as_recordings(X)
        labels = np.asarray(y)
        if labels.shape != (len(arrays),):
            raise ValueError(f"y: expected {len(arrays)} labels, one for each recording, got shape {labels.shape}")
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y: expected at least two classes, got one class, {self.classes_.tolist()}")
        self.n_features_in_ = arrays[0].shape[1]
        seed, names = draw_seed(self.random_state), name_classes(self.classes_)
        splits = divide_classes(numbers.tolist(), {"valid": self.validation_fraction}, seed)
        if "valid" not in splits:
            raise ValueError(f"X: expected at least two recordings of a class, got {len(arrays)} recordings of as many")
        rows = [
            {"sequence": str(place), "split": split, "label": names[number]}
            for place, (split, number) in enumerate(zip(splits, numbers))
        ]
        with tempfile.TemporaryDirectory() as folder:
            source = Source(Path(folder), rows, self.n_features_in_, names, arrays.__getitem__)
            write_features(source, Path(folder), "float32", {})
            plan = plan_classifier(
                Path(folder),
                cell=self.cell,
                hidden_size=self.hidden_size,
                num_layers=self.num_layers,
                target_fraction=self.target_fraction,
                learning_rate=self.learning_rate,
                batch_size=self.batch_size,
                max_updates=self.max_updates,
                normalize=self.normalize,
                seed=seed,
            )
            params = {**self.get_params(), "random_state": seed}
            extra = {"estimator": {"params": params, "classes": self.classes_.tolist()}}
            self.checkpoint_, self.history_ = train(plan, rank_by_target(self.target_fraction), self.progress, extra)
        self._hub = None
        return self

    def _check_params(self) -> None:
        check_choice("cell", self.cell, CELLS)
        for name in ("hidden_size", "num_layers", "batch_size", "max_updates"):
            check_size(name, getattr(self, name))
        check_flag("normalize", self.normalize)
        for name in ("validation_fraction", "target_fraction"):
            fraction = getattr(self, name)
            if not (fraction is None and name == "target_fraction") and not 0 < fraction < 1:
                raise ValueError(f"{name}: expected a fraction between 0 and 1, got {fraction}")

    @property
    def hub_(self):
        """The trained model as a :class:`skiprnn_plugin.hub.SkipRNNHub`."""
        if not hasattr(self, "checkpoint_"):
            raise NotFittedError(f"{type(self).__name__}: expected a call of fit before, got none")
        if getattr(self, "_hub", None) is None:
            import torch

            from .hub import from_pretrained

            # Loading draws initial weights before it replaces them
            with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng():
                path = Path(folder) / "checkpoint.pt"
                path.write_bytes(self.checkpoint_)
                self._hub = from_pretrained(path)
        return self._hub

    def __getstate__(self):
        return {**self.__dict__, "_hub": None}  # it is loaded again from the checkpoint

    def predict_proba(self, X: Recordings) -> np.ndarray:
        """The probability of each of ``classes_``, [N, classes]."""
        return self.hub_.predict(self._check(X))

    def predict(self, X: Recordings) -> np.ndarray:
        """The likeliest class of each recording, [N]."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    def used_samples(self, X: Recordings) -> List[np.ndarray]:
        """Which samples the model used: bool [T] for each recording."""
        return self.hub_.used_samples(self._check(X))

    def _check(self, X: Recordings) -> List[np.ndarray]:
        self.hub_  # noqa: B018  (an estimator that is not fitted says so first)
        arrays = as_recordings(X)
        if arrays[0].shape[1] != self.n_features_in_:
            raise ValueError(f"X: expected {self.n_features_in_} numbers in a sample, got {arrays[0].shape[1]}")
        return arrays

    def save(self, path: Union[str, Path]) -> None:
        """Write the model to a file: a checkpoint of fairseq, which ``skiprnn-predict`` and ``load`` read."""
        self.hub_  # noqa: B018
        path = Path(path)
        part = path.with_name(f"{path.name}.part")
        part.write_bytes(self.checkpoint_)
        os.replace(part, path)

    @classmethod
    def load(cls, path: Union[str, Path]) -> "SkipRNNClassifier":
        """Read a file that :meth:`save` has written.

        Raises:
            ValueError: the file was not written by ``save``.
        """
        from .checkpoints import read_extra_state

        state = read_extra_state(path).get("estimator")
        if state is None:
            raise ValueError(f"{path}: expected a file that {cls.__name__}.save has written, got another checkpoint")
        self = cls(**state["params"])
        self.classes_ = np.array(state["classes"])
        self.checkpoint_ = Path(path).read_bytes()
        self.n_features_in_ = self.hub_.task.input_size
        return self


def as_recordings(X: Recordings) -> List[np.ndarray]:
    """Recordings as arrays [T, D] of the same D and of finite numbers.

    Raises:
        ValueError: a recording is something else; the message names it.
    """
    if isinstance(X, str) or not hasattr(X, "__len__"):
        raise ValueError(f"X: expected a list of arrays [T, D], or an array [N, T, D], got {type(X).__name__}")
    if len(X) == 0:
        raise ValueError("X: expected recordings, got none")
    arrays = []
    for place, recording in enumerate(X):
        array = np.asarray(recording)
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "iuf":
            raise ValueError(f"X[{place}]: expected numbers [T, D], got {array.dtype} {array.shape}")
        if arrays and array.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"X[{place}]: expected {arrays[0].shape[1]} numbers in a sample, as in X[0], got {array.shape[1]}"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"X[{place}]: expected finite numbers, got NaN or infinity")
        arrays.append(array)
    return arrays


def name_classes(classes: np.ndarray) -> List[str]:
    """The classes as texts. Raises ValueError if two would have the same, or one that can't be written in a line."""
    from .data.manifest import clean_value

    try:
        names = [clean_value("class", str(value)) for value in classes.tolist()]
    except ValueError as error:
        raise ValueError(f"y: {error}") from error
    if len(set(names)) < len(names):
        raise ValueError(f"y: expected classes that differ as texts, got {names}")
    return names


def draw_seed(random_state: Any) -> int:
    """The seed that ``random_state`` is, or one that it draws; None draws from the operating system's randomness."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if hasattr(random_state, "randint"):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, (bool, np.bool_)) or int(random_state) != random_state or random_state < 0:
        raise ValueError(f"random_state: expected a whole number of at least 0, got {random_state!r}")
    return int(random_state)
