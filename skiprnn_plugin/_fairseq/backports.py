"""What this plugin needs of fairseq's main branch, from which ve-fairseq is made, and fairseq 0.12.2 does not have.

fairseq 0.12.2, its last release, is the one for Python 3.10, see ``setup.py``. Nothing here is needed with a later one.
"""

import contextvars
import inspect
import os
import sys

from omegaconf import OmegaConf, open_dict, read_write

from .registration import replace, when_imported

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

    Without this backport a run could be resumed on other data, and ``--patience`` would count from 0 again. fairseq's
    trainer must have been imported.
    """
    from fairseq import checkpoint_utils
    from fairseq.trainer import Trainer

    def wrap_save(save_checkpoint):
        def save_with_state_of_task(self, filename, extra_state):
            if hasattr(self.task, "get_checkpoint_dict"):
                extra_state = {**extra_state, **self.task.get_checkpoint_dict()}
            return save_checkpoint(self, filename, extra_state)

        return save_with_state_of_task

    def wrap_load(load_checkpoint):
        def load_with_state_of_task(cfg, trainer, **options):
            last = os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")
            begins_again = cfg.reset_dataloader or bool(cfg.finetune_from_model and not os.path.exists(last))
            extra_state, iterator = load_checkpoint(cfg, trainer, **options)
            state = (extra_state or {}).get(type(trainer.task).__name__)
            if state and not begins_again and hasattr(trainer.task, "set_checkpoint_dict"):
                trainer.task.set_checkpoint_dict(state)
            return extra_state, iterator

        return load_with_state_of_task

    replace(Trainer, "save_checkpoint", wrap_save)
    replace(checkpoint_utils, "load_checkpoint", wrap_load)


def evaluate_transformers() -> None:
    """Let a transformer's encoder run in evaluation with current torch versions.

    Without this backport fairseq's layers call a fast path of torch 1.12 that now takes other arguments, and fail.
    """
    from fairseq.modules.transformer_layer import TransformerEncoderLayerBase

    def wrap(__init__):
        def build_without_fast_path(self, *args, **kwargs):
            __init__(self, *args, **kwargs)
            self.can_use_fastpath = False

        return build_without_fast_path

    replace(TransformerEncoderLayerBase, "__init__", wrap)


def know_where_hydra_runs() -> None:
    """Let hydra 1.0, which fairseq 0.12.2 needs, know ``hydra.job.chdir`` and ``${hydra:runtime.output_dir}``.

    Without this backport hydra refuses the plugin's configuration. It has both so that relative paths are relative to
    the folder where the command was given. This function must be called before hydra reads a configuration. It does
    nothing with later versions of hydra.
    """
    import hydra.conf  # its import stores hydra's configuration
    from hydra.core.config_store import ConfigStore

    if not hydra.__version__.startswith("1.0."):
        return
    known = ConfigStore.instance().repo["hydra_config.yaml"].node.hydra
    with open_dict(known.job), open_dict(known.runtime):
        known.job.chdir = known.runtime.output_dir = None
    name, main = "fairseq_cli.hydra_train", sys.modules["__main__"]
    if getattr(getattr(main, "__spec__", None), "name", None) == name:  # python -m fairseq_cli.hydra_train
        _run_where_hydra_was_started(main)
    else:
        when_imported(name, lambda: _run_where_hydra_was_started(sys.modules[name]))


def _run_where_hydra_was_started(hydra_train) -> None:
    """``hydra_train``: the module of fairseq's command."""
    from hydra.core.hydra_config import HydraConfig

    def wrap(_hydra_main):
        def run_where_hydra_was_started(cfg, **kwargs):
            if HydraConfig.initialized():
                options = HydraConfig.get()
                with read_write(options), open_dict(options.runtime):
                    options.runtime.output_dir = os.getcwd()
                    for handler in (OmegaConf.select(options, "job_logging.handlers") or {}).values():
                        if "filename" in handler:  # fairseq opens it again
                            handler.filename = os.path.abspath(handler.filename)
                if options.job.chdir is False:
                    os.chdir(options.runtime.cwd)  # after the run hydra goes back there in any case
            return _hydra_main(cfg, **kwargs)

        return run_where_hydra_was_started

    replace(hydra_train, "_hydra_main", wrap)
