"""Skip RNNs in the manner of scikit-learn: a model that is trained on your recordings in a few lines."""

import inspect
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Union

import numpy as np

from .arguments import check_choice, check_finite, check_flag, check_size
from .quiet import no_notes

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
DEVICES = ("cpu", "cuda")
MOST_SEED = 2**32 - 1  # that numpy takes
PLANNED = (  # parameters that say what to train, and how long
    *("cell", "hidden_size", "num_layers", "target_fraction", "learning_rate", "batch_size", "max_updates"),
    *("normalize", "device"),
)


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
        device: ``cpu`` or ``cuda``, to train and to predict on; None trains on a GPU if there is one, and predicts on
            the CPU.

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
        device: Optional[str] = None,
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

    def fit(self, X: Recordings, y: Sequence[Any]) -> "SkipRNNClassifier":
        """Train on recordings and their classes, N labels of any type that can be sorted.

        Raises:
            ValueError: an argument or a recording is wrong; the message names it.
        """
        params = self._read_params()
        arrays = as_recordings(X)
        labels = as_labels(y, len(arrays))
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y: expected at least two classes, got one class, {classes.tolist()}")
        with no_notes():  # fairseq changes it when it is imported
            from .prepare.splits import divide_classes
            from .prepare.write_features import Source, write_features
            from .training import choose_by_target, plan_classifier, train
        seed, names = params["random_state"], name_classes(classes)
        splits = divide_classes(numbers.tolist(), {"valid": params["validation_fraction"]}, seed)
        if "valid" not in splits:
            raise ValueError(f"X: expected at least two recordings of a class, got {len(arrays)} recordings of as many")
        rows = [
            {"sequence": str(place), "split": split, "label": names[number]}
            for place, (split, number) in enumerate(zip(splits, numbers))
        ]
        options = {name: params[name] for name in PLANNED}
        with tempfile.TemporaryDirectory() as folder:
            source = Source(Path(folder), rows, arrays[0].shape[1], names, arrays.__getitem__)
            write_features(source, Path(folder), "float32", {})
            plan = plan_classifier(Path(folder), seed=seed, **options)
            extra = describe(params, classes)
            trained = train(plan, choose_by_target(params["target_fraction"]), params["progress"], extra)
        # Together and at the end, so that a training that fails leaves the estimator as it was
        self.classes_, self.n_features_in_ = classes, arrays[0].shape[1]
        self.checkpoint_, self.history_ = trained
        self._hub = None
        return self

    def _read_params(self) -> Dict[str, Any]:
        """The parameters in plain types of Python, with a seed for ``random_state``; ValueError if one is wrong."""
        params = self.get_params(deep=False)
        for name in ("hidden_size", "num_layers", "batch_size", "max_updates"):
            params[name] = check_size(name, params[name])
        for name in ("normalize", "progress"):
            params[name] = check_flag(name, params[name])
        params["cell"] = str(check_choice("cell", params["cell"], CELLS))
        if params["device"] is not None:
            params["device"] = str(check_choice("device", params["device"], DEVICES))
        params["learning_rate"] = check_finite("learning_rate", params["learning_rate"])
        if params["learning_rate"] <= 0:
            raise ValueError(f"learning_rate: expected a number above 0, got {params['learning_rate']}")
        params["validation_fraction"] = _check_fraction("validation_fraction", params["validation_fraction"])
        if params["target_fraction"] is not None:
            params["target_fraction"] = _check_fraction("target_fraction", params["target_fraction"])
        params["random_state"] = draw_seed(params["random_state"])
        return params

    @property
    def hub_(self):
        """The trained model as a :class:`skiprnn_plugin.hub.SkipRNNHub`."""
        if not hasattr(self, "checkpoint_"):
            raise NotFittedError(f"{type(self).__name__}: expected a call of fit before, got none")
        if getattr(self, "_hub", None) is None:
            with no_notes():
                from .hub import from_pretrained
                from .training import LOCK, seeded

            # Loading draws initial weights before it replaces them
            with LOCK, tempfile.TemporaryDirectory() as folder, seeded(0):
                path = Path(folder) / "checkpoint.pt"
                path.write_bytes(self.checkpoint_)
                self._hub = from_pretrained(path).to(self.device or "cpu")
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
        with no_notes():
            from .checkpoints import read_extra_state
        extra = read_extra_state(path)
        state = extra.get("estimator")
        if state is None:
            raise ValueError(
                f"{path}: expected a file that {cls.__name__}.save or skiprnn-train has written, got another checkpoint"
            )
        self = cls(**state["params"])
        self.checkpoint_, self.history_ = Path(path).read_bytes(), extra["history"]
        self.classes_ = np.array(state.get("classes", self.hub_.class_names), dtype=state.get("dtype"))
        self.n_features_in_ = self.hub_.task.input_size
        return self


def describe(params: Dict[str, Any], classes: Optional[np.ndarray] = None) -> Dict[str, Any]:
    """What a checkpoint holds so that :meth:`SkipRNNClassifier.load` can read it.

    Args:
        params: the parameters of an estimator, in plain types of Python; those that are missing are its defaults.
        classes: the classes, sorted; None if they are the texts that the task calls them.
    """
    if classes is None:
        return {"estimator": {"params": params}}
    return {"estimator": {"params": params, "classes": classes.tolist(), "dtype": classes.dtype.str}}


def _check_fraction(name: str, value: Any) -> float:
    fraction = check_finite(name, value)
    if not 0 < fraction < 1:
        raise ValueError(f"{name}: expected a fraction between 0 and 1, got {value}")
    return fraction


def as_labels(y: Sequence[Any], size: int) -> np.ndarray:
    """The labels as an array [size] of numbers, bools or texts.

    Raises:
        ValueError: there are more or fewer, or one is something else, such as NaN or a date.
    """
    labels = np.asarray(y)
    if labels.shape != (size,):
        raise ValueError(f"y: expected {size} labels, one for each recording, got shape {labels.shape}")
    if labels.dtype.kind == "O":
        others = [label for label in labels if not isinstance(label, str)]
        if others:
            raise ValueError(f"y: expected labels that are all numbers, or all texts, got {others[0]!r}")
        labels = labels.astype(str)
    if labels.dtype.kind not in "biufU":
        raise ValueError(f"y: expected labels that are numbers, bools or texts, got {labels.dtype}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y: expected finite numbers, got NaN or infinity")
    return labels


def as_recordings(X: Recordings) -> List[np.ndarray]:
    """Recordings as arrays [T, D] of the same D and of finite numbers.

    Raises:
        ValueError: a recording is something else; the message names it.
    """
    if isinstance(X, (str, dict)) or hasattr(X, "columns") or not hasattr(X, "__len__"):  # a DataFrame has columns
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
    if random_state is None or isinstance(random_state, np.random.Generator):
        return int(np.random.default_rng(random_state).integers(MOST_SEED + 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(MOST_SEED + 1, dtype=np.int64))
    is_number = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if not is_number or not 0 <= random_state <= MOST_SEED:
        raise ValueError(f"random_state: expected an integer from 0 to {MOST_SEED}, got {random_state!r}")
    return int(random_state)
