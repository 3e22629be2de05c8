"""What this plugin needs of fairseq's main branch, from which ve-fairseq is made, and fairseq 0.12.2 does not have.

fairseq 0.12.2, its last release, is the one for Python 3.10, see ``setup.py``. Nothing here is needed with a later one.
"""

import contextvars
import inspect

from .registration import replace

_LOADS_CHECKPOINT = contextvars.ContextVar("_LOADS_CHECKPOINT", default=False)


def are_needed() -> bool:
    """Whether fairseq is 0.12.2, or as old. It must have been imported."""
    from fairseq import criterions

    return "from_checkpoint" not in inspect.signature(criterions.build_criterion).parameters


def load_tasks_from_checkpoints() -> None:
    """Set up the task of a trained model with ``from_checkpoint``, and without options that the task does not know.

    Without this backport a trained model needs the data that it was trained on, as a training run does. Only a task
    that has an attribute ``from_checkpoint`` gets it, as tasks of other plugins may not expect it.
    """
    from fairseq import checkpoint_utils, tasks
    from fairseq.dataclass.utils import merge_with_parent

    def wrap_load(load_model_ensemble_and_task):
        def load_from_checkpoint(*args, **kwargs):
            token = _LOADS_CHECKPOINT.set(True)
            try:
                return load_model_ensemble_and_task(*args, **kwargs)
            finally:
                _LOADS_CHECKPOINT.reset(token)

        return load_from_checkpoint

    def wrap_setup(setup_task):
        def setup_task_of_checkpoint(cfg, **kwargs):
            name = getattr(cfg, "_name", None)
            if _LOADS_CHECKPOINT.get() and hasattr(tasks.TASK_REGISTRY.get(name), "from_checkpoint"):
                cfg = merge_with_parent(tasks.TASK_DATACLASS_REGISTRY[name](), cfg, remove_missing=True)
                kwargs.setdefault("from_checkpoint", True)
            return setup_task(cfg, **kwargs)

        return setup_task_of_checkpoint

    replace(checkpoint_utils, "load_model_ensemble_and_task", wrap_load)
    replace(tasks, "setup_task", wrap_setup)


def keep_state_of_task() -> None:
    """Save what a task returns from ``get_checkpoint_dict`` in checkpoints, and give it to its ``set_checkpoint_dict``
    when a run is resumed, unless its data are to begin again.

    Without this backport a run could be resumed on other data, and ``--patience`` would begin anew. fairseq's trainer
    must have been imported.
    """
    from fairseq.trainer import Trainer

    def wrap_save(save_checkpoint):
        def save_with_state_of_task(self, filename, extra_state):
            if hasattr(self.task, "get_checkpoint_dict"):
                extra_state = {**extra_state, **self.task.get_checkpoint_dict()}
            return save_checkpoint(self, filename, extra_state)

        return save_with_state_of_task

    def wrap_load(load_checkpoint):
        def load_with_state_of_task(self, filename, *args, **kwargs):
            extra_state = load_checkpoint(self, filename, *args, **kwargs)
            options = self.cfg.checkpoint
            begins_again = options.reset_dataloader or filename == options.finetune_from_model
            state = (extra_state or {}).get(type(self.task).__name__)
            if state and not begins_again and hasattr(self.task, "set_checkpoint_dict"):
                self.task.set_checkpoint_dict(state)
            return extra_state

        return load_with_state_of_task

    replace(Trainer, "save_checkpoint", wrap_save)
    replace(Trainer, "load_checkpoint", wrap_load)
