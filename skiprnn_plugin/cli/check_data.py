"""Load a task's data before long runs need them.

``python -m skiprnn_plugin.cli.check_data --task TASK [OPTION...]``, with ``fairseq-train``'s options, says how many
sequences the splits of ``--train-subset`` and ``--valid-subset`` have, or what is wrong with the data.
"""

import sys
from typing import Optional, Sequence

from ..arguments import UserError
from .command import run_command


def main(argv: Optional[Sequence[str]] = None) -> int:
    return run_command("python -m skiprnn_plugin.cli.check_data", check, sys.argv[1:] if argv is None else argv)


def check(arguments: Sequence[str]) -> str:
    from fairseq import options, tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    # fairseq's parser requires an architecture, though no model is built
    arguments = ["--arch", "skip_gru", *arguments]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), arguments))
    splits = [cfg.dataset.train_subset, *cfg.dataset.valid_subset.split(",")]
    try:
        task = tasks.setup_task(cfg.task)
        for split in splits:
            task.load_dataset(split)
        if hasattr(task, "build_embedding"):  # fairseq's own tasks have none
            task.build_embedding()  # reads the file of word vectors, if one is named
    except (ImportError, OSError, ValueError) as error:
        raise UserError(str(error)) from error
    return "\n".join(f"{split}: {len(task.dataset(split)):,} sequences" for split in splits)


if __name__ == "__main__":
    sys.exit(main())
