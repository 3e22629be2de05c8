"""``skiprnn-plot samples``: which samples of held-out adding sequences a model used (the paper's figure)."""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .checkpoint import Loaded, check_split, import_user_dir, load_checkpoint
from .command import UserError
from .figures import check_output, new_figure, save
from .runs import find_file, is_checkpoint

HELP = "draw which samples of a few held-out adding sequences a model used"
MOST_SEQUENCES = 50  # more make a picture that few programs open

# Red and blue as in the paper; different in lightness and shape too, for readers who see them alike
USED = {"color": "#d62728", "marker": "o", "markersize": 5.5, "zorder": 3}
SKIPPED = {"color": "#1f77b4", "marker": "x", "markersize": 5.5, "markeredgewidth": 1.5, "zorder": 3}
MARKED = {"color": "black", "marker": "o", "markersize": 12, "markerfacecolor": "none", "zorder": 2}


class Samples(NamedTuple):
    """What is drawn of N sequences of T steps.

    Attributes:
        values: [N, T].
        marked: True at the samples to add up, bool [N, T].
        used: True where the model updated its state (in either direction), bool [N, T].
        target: [N].
        predicted: [N].
    """

    values: np.ndarray
    marked: np.ndarray
    used: np.ndarray
    target: np.ndarray
    predicted: np.ndarray


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a checkpoint (*.pt), or a save-dir for its last one")
    parser.add_argument("--output", type=Path, default=Path("samples.png"), help="default: %(default)s")
    parser.add_argument("--num-sequences", type=int, default=4, metavar="N", help="default: %(default)s")
    parser.add_argument("--split", default="valid", help="held-out split to take them from (default: %(default)s)")
    parser.add_argument("--user-dir", metavar="DIR", help="your own fairseq plugin, if the checkpoint needs one")


def run(args: argparse.Namespace) -> None:
    check_output(args.output)
    check_split(args.split)
    if not 1 <= args.num_sequences <= MOST_SEQUENCES:
        raise UserError(f"--num-sequences: expected 1 to {MOST_SEQUENCES}, got {args.num_sequences}")
    path = find_file(args.checkpoint)
    if not is_checkpoint(path):
        raise UserError(f"{path}: expected a checkpoint (*.pt) or a save-dir that holds one")
    if args.user_dir:
        import_user_dir(args.user_dir)
    save(draw(predict(load_checkpoint(path, args.split), args.num_sequences)), args.output)


def predict(loaded: Loaded, count: int) -> Samples:
    """Run the split's first ``count`` sequences through the model."""
    import torch
    from fairseq import utils

    task, dataset = loaded.options["task"], loaded.dataset
    if task != "adding":
        raise UserError(f"{loaded.path}: expected a model of task adding, got {task}")
    if count > len(dataset):
        raise UserError(f"--num-sequences: split {loaded.split} has {len(dataset)}, got {count}")
    sample = dataset.collater([dataset[index] for index in range(count)])
    if loaded.device.type == "cuda":
        sample = utils.move_to_cuda(sample)
    with torch.no_grad():
        output = loaded.model(**sample["net_input"])
    x = sample["net_input"]["x"].cpu().numpy()
    return Samples(
        values=x[:, :, 0],
        marked=x[:, :, 1] > 0,
        used=(output.updates.view(count, -1, x.shape[1]) > 0).any(1).cpu().numpy(),  # in any direction
        target=sample["target"].cpu().numpy(),
        predicted=output.prediction.squeeze(-1).cpu().numpy(),
    )


def draw(samples: Samples):
    """A matplotlib figure with a panel for each sequence."""
    count, steps = samples.values.shape
    figure = new_figure(height=1.75 * count + 0.3)
    panels = figure.subplots(count, sharex=True, sharey=True, squeeze=False)[:, 0]
    for panel, values, marked, used, target, predicted in zip(panels, *samples):
        _draw_sequence(panel, values, marked, used)
        panel.set_title(
            f"target {target:.3f}, predicted {predicted:.3f}, used {used.sum()} of {steps}", loc="left", fontsize=10
        )
    panels[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncol=3, frameon=False, borderpad=0)
    panels[-1].set_xlabel("time step")
    return figure


def _draw_sequence(panel, values: np.ndarray, marked: np.ndarray, used: np.ndarray) -> None:
    steps = np.arange(1, len(values) + 1)
    panel.axhline(0, color="0.85", linewidth=0.8, zorder=1)
    for label, chosen, style in (
        ("used", used, USED),
        ("skipped", ~used, SKIPPED),
        ("marked: to be added up", marked, MARKED),
    ):
        panel.plot(steps[chosen], values[chosen], linestyle="none", label=label, **style)
    panel.set_ylabel("value")
    panel.set_xlim(0, len(values) + 1)
    panel.margins(y=0.18)
    panel.spines[["top", "right"]].set_visible(False)
