"""Ends training early, by a signal or by ``--patience``, so that the same command resumes as if it had not ended."""

import contextlib
import logging
import os
import signal
import sys
import threading
import time
import weakref
from typing import Iterator, Optional

from .._fairseq.patches import forget_previous_run
from .._fairseq.signals import SIGNALS, CollaterInWorker, fairseq_trains

logger = logging.getLogger(__name__)

SAME_REQUEST = 0.5  # seconds; a launcher may pass on a signal that the whole process group has received already
LOGGED = "stop_signals"  # in the logging output of a training batch: 1 if this process received a signal, otherwise 0


class SignalWatch:
    """Records the first SIGTERM or SIGINT that arrives while fairseq-train runs.

    A second signal, or a signal after the end of fairseq-train, has the effect that it had before this object was made.
    Signals that are ignored (``nohup``) stay ignored. Outside the main thread the object does nothing, because Python
    allows no signal handlers there. Handlers that the program had set before are called too.

    Attributes:
        received: the signal's name; None before the first signal.
    """

    _current: Optional["SignalWatch"] = None  # there is at most one, so that handlers are restored in the right order

    def __init__(self):
        self.received: Optional[str] = None
        self._since = 0.0
        self._previous = {}
        if threading.current_thread() is not threading.main_thread():
            return
        if SignalWatch._current is not None:
            SignalWatch._current.restore()
        SignalWatch._current = self
        for number in SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: a handler not set by Python
                self._previous[number] = signal.signal(number, self._handle)

    def _handle(self, number, frame) -> None:
        name = signal.Signals(number).name
        if not fairseq_trains(frame):
            self.restore()
            signal.raise_signal(number)
        elif self.received is None:
            self.received, self._since = name, time.monotonic()
            # A handler can interrupt a print or a log call, whose streams are not reentrant.
            message = "ending after the current training update or validation; a second signal ends training at once"
            os.write(2, f"{name}: {message}\n".encode())
            previous = self._previous[number]
            if callable(previous) and previous is not signal.default_int_handler:
                previous(number, frame)
        elif time.monotonic() - self._since >= SAME_REQUEST:
            self.restore()
            signal.raise_signal(number)

    def restore(self) -> None:
        """Restore the previous handlers, unless other code has set new ones since. It can be called again, if that code
        has put this object's handlers back."""
        if threading.current_thread() is not threading.main_thread():
            return  # this is also called as a finalizer, which can run in any thread
        for number, previous in self._previous.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, previous)
        if SignalWatch._current is self:
            SignalWatch._current = None


class StopsInOrder:
    """A mixin for a ``FairseqTask``, which it must precede in the list of bases.

    SIGTERM and SIGINT end training after the current training update, in all processes alike, with a checkpoint and
    exit code 0. No extra validation is run then, because a scheduler may soon kill the processes. A validation that was
    due anyway, for instance at the end of an epoch, is run, because a resumed run would not catch up on it. If a signal
    arrives during a validation, the validation is finished and one more training update is made.

    A resumed run continues the count of ``--patience``. It does not go on with other data by mistake.

    Attributes:
        data_fingerprint: a number that tells data in ``--data-dir`` on which the model can't be trained further, such
            as data with other classes. None if any data may be used.
    """

    data_fingerprint: Optional[int] = None

    _watch: Optional[SignalWatch] = None
    _train_iterator = None
    _ending = False  # whether a signal has ended training
    _as_given = None  # by section and name, the user's values of the options that were changed to end training
    _num_updates = 0

    def __getstate__(self):
        """For a copy, which has the data but not what belongs to a run in this process: its iterators and handlers."""
        left_behind = {"_watch": None, "_train_iterator": None, "dataset_to_epoch_iter": {}}
        return {name: left_behind.get(name, value) for name, value in vars(self).items()}

    def begin_epoch(self, epoch, model):
        super().begin_epoch(epoch, model)
        if self._watch is None and fairseq_trains(sys._getframe()):  # other training loops may ignore max_update
            self._watch = SignalWatch()
            weakref.finalize(self, self._watch.restore)

    def get_batch_iterator(self, dataset, *args, **kwargs):
        iterator = super().get_batch_iterator(dataset, *args, **kwargs)
        if not isinstance(iterator.collate_fn, CollaterInWorker):
            iterator.collate_fn = CollaterInWorker(iterator.collate_fn)
        cfg = self.cfg._get_root()
        if "dataset" in cfg and self.datasets.get(cfg.dataset.train_subset) is dataset:
            self._train_iterator = iterator
        return iterator

    def train_step(self, sample, model, criterion, optimizer, update_num, *args, **kwargs):
        loss, size, logged = super().train_step(sample, model, criterion, optimizer, update_num, *args, **kwargs)
        self._num_updates = update_num + 1  # the number of training updates once this one is made
        # fairseq sums logging outputs over all processes, so all of them learn of a signal at the same training update.
        return loss, size, {**logged, LOGGED: int(self._watch is not None and self._watch.received is not None)}

    def reduce_metrics(self, logging_outputs, criterion):
        # removed from the outputs, as some criterions log every name that they find
        signals = sum(float(output.pop(LOGGED, 0)) for output in logging_outputs)
        super().reduce_metrics(logging_outputs, criterion)
        if signals > 0 and not self._ending:
            self._ending = True
            self._end_training()

    def change_option(self, section: str, name: str, value) -> None:
        """Change an option of fairseq's so that training ends; see :meth:`options_as_given`."""
        options = self.cfg._get_root()[section]
        self._as_given = {(section, name): options[name], **(self._as_given or {})}
        options[name] = value

    @contextlib.contextmanager
    def options_as_given(self) -> Iterator[None]:
        """A context in which the options that :meth:`change_option` has changed are what the user gave.

        The plugin's wrapper of fairseq's trainer makes checkpoints in it.
        """
        cfg, given = self.cfg._get_root(), self._as_given or {}
        changed = {(section, name): cfg[section][name] for section, name in given}
        try:
            for (section, name), value in given.items():
                cfg[section][name] = value
            yield
        finally:
            for (section, name), value in changed.items():
                cfg[section][name] = value

    def _end_training(self) -> None:
        cfg = self.cfg._get_root()
        self.change_option("optimization", "max_update", self._num_updates)
        if not self._validation_is_due():
            self.change_option("dataset", "disable_validation", True)
        path = os.path.join(cfg.checkpoint.save_dir, "checkpoint_last.pt")
        name = (self._watch and self._watch.received) or "a signal to another process"
        if cfg.checkpoint.no_save or cfg.checkpoint.no_last_checkpoints:
            outcome = "no checkpoint to resume from is saved (--no-save or --no-last-checkpoints)"
        else:
            outcome = f"the same command resumes from {path}"
        logger.info(f"stopped by {name} after {self._num_updates} training updates: {outcome}")

    def _validation_is_due(self) -> bool:
        """Whether fairseq would validate after this training update in any case."""
        cfg = self.cfg._get_root()
        if self._train_iterator is not None and self._train_iterator.end_of_epoch():
            intervals = ()
            due = self._train_iterator.epoch % cfg.dataset.validate_interval == 0
        else:
            intervals = (cfg.checkpoint.save_interval_updates,)
            due = False
        intervals += (cfg.dataset.validate_interval_updates,)
        return due or any(interval > 0 and self._num_updates % interval == 0 for interval in intervals)

    def get_checkpoint_dict(self):
        """What fairseq saves for the task in a checkpoint: the best score, how many validations did not beat it, and
        the fingerprint of the data."""
        cfg = self.cfg._get_root()
        patience = (
            vars(sys.modules["fairseq_cli.train"].should_stop_early) if "fairseq_cli.train" in sys.modules else {}
        )
        state = {"metric": cfg.checkpoint.best_checkpoint_metric, "data": self.data_fingerprint}
        if patience.get("best") is not None:
            state.update(best=float(patience["best"]), num_runs=int(patience["num_runs"]))
        return {type(self).__name__: state}

    def set_checkpoint_dict(self, state) -> None:
        """Restore what :meth:`get_checkpoint_dict` returned. fairseq calls this when a run is resumed, unless its data
        are to begin again, as with ``--reset-dataloader`` and ``--finetune-from-model``.

        Raises ValueError for other data.
        """
        # Earlier versions stored none
        if state.get("data") not in (None, self.data_fingerprint):
            raise ValueError(
                f"--data-dir: {self.cfg.data_dir!r} has other classes, words, features or numbers to predict than when "
                "the run began, so that it can't be resumed; to train its model further on other data, use "
                "--finetune-from-model with another --save-dir, or --reset-dataloader"
            )
        checkpoint = self.cfg._get_root().checkpoint
        if state["metric"] != checkpoint.best_checkpoint_metric:
            logger.warning(
                f"--best-checkpoint-metric was {state['metric']} and is {checkpoint.best_checkpoint_metric} now: "
                "the best score is forgotten"
            )
            forget_previous_run()
        elif "best" in state and not (checkpoint.reset_meters or checkpoint.reset_optimizer):
            from fairseq_cli.train import should_stop_early

            should_stop_early.best, should_stop_early.num_runs = state["best"], state["num_runs"]
