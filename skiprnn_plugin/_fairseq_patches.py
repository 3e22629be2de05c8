"""What the plugin mends of fairseq: each with what goes wrong without it, and what would make it unneeded."""

import sys


def forget_previous_run() -> None:
    """Runs in one process (hydra's multirun) begin without the best score of the run before.

    fairseq keeps it as an attribute of two functions, so that a second run saves no ``checkpoint_best.pt`` and stops
    early unless it beats the first one. Needed by all versions up to ve-fairseq 0.12.3, until the trainer holds it.
    """
    for module, function in (
        ("fairseq.checkpoint_utils", "save_checkpoint"),
        ("fairseq_cli.train", "should_stop_early"),
    ):
        if module in sys.modules:
            vars(getattr(sys.modules[module], function)).pop("best", None)
