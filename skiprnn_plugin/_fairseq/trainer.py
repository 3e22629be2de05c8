"""Workarounds for bugs of fairseq's trainer, as those of patches.py."""

import contextlib

import torch

from .registration import replace


def apply() -> None:
    """See :func:`.patches.apply`. fairseq's trainer must have been imported."""
    train_fp16_on_cpu()
    drop_dummy_batches()
    seed_only_the_cpu()
    save_options_as_given()
    begin_averages_on_resume()
    begin_criterion_with_updates()
    say_why_weights_do_not_fit()


def train_fp16_on_cpu() -> None:
    """Let ``--fp16`` work on CPUs.

    Without this workaround fairseq needs a GPU for flat gradients (so ``--fp16-no-flatten-grads`` is set, which does
    not change results) and, at each overflow, for the number 0.0. Needed until the trainer uses its own device.
    """
    from fairseq.trainer import Trainer

    def wrap_build(_build_optimizer):
        def build_on_any_device(self):
            if self.cfg.common.fp16 and not self.cuda:
                self.cfg.common.fp16_no_flatten_grads = True
            return _build_optimizer(self)

        return build_on_any_device

    def wrap_step(train_step):
        def train_step_on_any_device(self, samples, raise_oom=False):
            if not self.cfg.common.fp16 or torch.cuda.is_available():
                return train_step(self, samples, raise_oom)
            cuda, torch.Tensor.cuda = torch.Tensor.cuda, lambda tensor, *args, **kwargs: tensor
            try:
                return train_step(self, samples, raise_oom)
            finally:
                torch.Tensor.cuda = cuda

        return train_step_on_any_device

    replace(Trainer, "_build_optimizer", wrap_build)
    replace(Trainer, "train_step", wrap_step)


def drop_dummy_batches() -> None:
    """Count the real batches of a process that has fewer than ``--update-freq`` of them left.

    fairseq gives such a process a dummy batch. Without this workaround, if the dummy comes last, the gradients of the
    real batches count, but not their sample size and logs, on GPUs too. Needed until the trainer drops dummy batches.
    """
    from fairseq.trainer import Trainer

    def wrap(train_step):
        def train_step_on_real_batches(self, samples, raise_oom=False):
            if not self.is_fsdp:  # with FSDP all processes must run the same number of batches
                samples = [sample for sample in samples if sample] or samples
            return train_step(self, samples, raise_oom)

        return train_step_on_real_batches

    replace(Trainer, "train_step", wrap)


def seed_only_the_cpu() -> None:
    """Let training on the CPU seed no other device.

    fairseq calls ``torch.manual_seed`` at the beginning of each training update. For each kind of device that is not in
    use, torch then stores the seed together with the stack of callers as text, which takes the longer the deeper that
    stack is. The random numbers are the same. Needed until torch stores the seed alone.
    """
    from fairseq.trainer import Trainer

    def wrap(_set_seed):
        def set_seed_of_device(self):
            if self.device.type != "cpu":
                return _set_seed(self)
            torch.default_generator.manual_seed(self.cfg.common.seed + self.get_num_updates())  # as fairseq does

        return set_seed_of_device

    replace(Trainer, "_set_seed", wrap)


def save_options_as_given() -> None:
    """Save the options in checkpoints as the user gave them.

    A task can end training only by changing options, such as ``--max-update``. Without this workaround checkpoints
    would hold the changed ones. Needed until the trainer asks the task whether to end.
    """
    from fairseq.trainer import Trainer

    def wrap(state_dict):
        def state_dict_with_options_as_given(self):
            with getattr(self.task, "options_as_given", contextlib.nullcontext)():
                return state_dict(self)

        return state_dict_with_options_as_given

    replace(Trainer, "state_dict", wrap)


def begin_averages_on_resume() -> None:
    """Let ``--store-ema`` begin when a run is resumed.

    Without this workaround a run fails that resumes from a checkpoint without averages, which fairseq means to start
    from the checkpoint's model. Needed until the trainer keeps this model until the averages are made of it.
    """
    from fairseq import checkpoint_utils
    from fairseq.trainer import Trainer

    def wrap(load_checkpoint):
        def load_with_averages(self, *args, **kwargs):
            if not self.cfg.ema.store_ema:
                return load_checkpoint(self, *args, **kwargs)
            load = checkpoint_utils.load_checkpoint_to_cpu

            def load_and_begin_averages(*args, **kwargs):
                state = load(*args, **kwargs)
                state["extra_state"].setdefault("ema", dict(state["model"]))
                return state

            checkpoint_utils.load_checkpoint_to_cpu = load_and_begin_averages
            try:
                return load_checkpoint(self, *args, **kwargs)
            finally:
                checkpoint_utils.load_checkpoint_to_cpu = load

        return load_with_averages

    replace(Trainer, "load_checkpoint", wrap)


def say_why_weights_do_not_fit() -> None:
    """Let the error say what is wrong where training is resumed from the checkpoint of another model.

    If the model refuses the weights and its error names an option, this error is the last line. Without this workaround
    the last line is fairseq's, which says that the architectures should match, and the model's error is far above it.
    A model may also take the weights, as one with a gate takes those of one without, but the optimizer's state does not
    fit. Without this workaround torch's error speaks of parameter groups. Needed until fairseq's errors say so.
    """
    from fairseq.trainer import Trainer

    def wrap(load_checkpoint):
        def load_or_say_why(self, filename, *args, **kwargs):
            try:
                return load_checkpoint(self, filename, *args, **kwargs)
            except Exception as error:
                cause = error.__context__
                if isinstance(cause, ValueError) and str(cause).startswith("--"):
                    raise cause from None
                if isinstance(error, ValueError) and "parameter group" in str(error):
                    raise ValueError(
                        f"--arch: expected the architecture of {filename}, from which training is resumed, got "
                        "another; a new run starts from its weights with --finetune-from-model and another --save-dir"
                    ) from error
                raise

        return load_or_say_why

    replace(Trainer, "load_checkpoint", wrap)


def begin_criterion_with_updates() -> None:
    """Call a criterion's ``begin_training``, if it has one, where fairseq takes a model from a checkpoint but counts
    training updates from 0, as with ``--finetune-from-model`` and ``--reset-optimizer``.

    Without this workaround the criterion keeps the state that the checkpoint holds, which fairseq loads there
    too. Needed until fairseq resets a criterion with the optimizer.
    """
    from fairseq.trainer import Trainer

    def wrap(load_checkpoint):
        def load_and_begin(self, *args, **kwargs):
            extra_state = load_checkpoint(self, *args, **kwargs)
            criterion = self.get_criterion()
            if self.get_num_updates() == 0 and hasattr(criterion, "begin_training"):
                criterion.begin_training()
            return extra_state

        return load_and_begin

    replace(Trainer, "load_checkpoint", wrap)
