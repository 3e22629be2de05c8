"""``skiprnn-plot samples``: which samples of held-out sequences a model used (the paper's figures)."""

import argparse
from pathlib import Path
from typing import List, NamedTuple, Optional

import numpy as np

from .checkpoint import Loaded, check_split, import_user_dir, load_checkpoint
from .command import UserError
from .figures import check_output, new_figure, save
from .runs import find_file, is_checkpoint

HELP = "draw which samples of a few held-out sequences a model used"
MOST_SEQUENCES = 50  # more make a picture that few programs open

# Red and blue as in the paper; different in lightness and shape too, for readers who see them alike
USED = {"color": "#d62728", "marker": "o", "markersize": 5.5, "zorder": 3}
SKIPPED = {"color": "#1f77b4", "marker": "x", "markersize": 5.5, "markeredgewidth": 1.5, "zorder": 3}
MARKED = {"color": "black", "marker": "o", "markersize": 12, "markerfacecolor": "none", "zorder": 2}
WAVE = {"color": "0.75", "linewidth": 0.8, "zorder": 2}


class Samples(NamedTuple):
    """What is drawn of N sequences of T steps.

    Attributes:
        times: where the steps are on the horizontal axis, [T].
        time_label: of the horizontal axis.
        values: [N, T].
        value_label: of the vertical axis.
        used: True where the model updated its state (in either direction), bool [N, T].
        outcomes: what was to be predicted and what was, in words, N of them.
        marked: True at the samples to add up, bool [N, T]; None where samples are of a wave instead.
    """

    times: np.ndarray
    time_label: str
    values: np.ndarray
    value_label: str
    used: np.ndarray
    outcomes: List[str]
    marked: Optional[np.ndarray]


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
    if task not in TASKS:
        raise UserError(f"{loaded.path}: expected a model of task {' or '.join(TASKS)}, got {task}")
    if count > len(dataset):
        raise UserError(f"--num-sequences: split {loaded.split} has {len(dataset)}, got {count}")
    sample = dataset.collater([dataset[index] for index in range(count)])
    if loaded.device.type == "cuda":
        sample = utils.move_to_cuda(sample)
    with torch.no_grad():
        output = loaded.model(**sample["net_input"])
    steps = dataset.num_tokens(0)
    if output.updates.shape[1] % steps:
        raise UserError(
            f"{loaded.path}: expected a model that decides at each of {steps} steps, it decides at "
            f"{output.updates.shape[1]}"
        )
    return TASKS[task](
        loaded.options,
        sample["net_input"]["x"].cpu().numpy(),
        (output.updates.view(count, -1, steps) > 0).any(1).cpu().numpy(),  # in either direction
        sample["target"].cpu().numpy(),
        output.prediction.cpu().numpy(),
    )


def _adding(options, x: np.ndarray, used: np.ndarray, target: np.ndarray, prediction: np.ndarray) -> Samples:
    return Samples(
        times=np.arange(1, x.shape[1] + 1),
        time_label="time step",
        values=x[:, :, 0],
        value_label="value",
        used=used,
        outcomes=[f"target {t:.3f}, predicted {p:.3f}" for t, p in zip(target, prediction[:, 0])],
        marked=x[:, :, 1] > 0,
    )


def _frequency(options, x: np.ndarray, used: np.ndarray, target: np.ndarray, prediction: np.ndarray) -> Samples:
    return Samples(
        times=np.arange(x.shape[1]) * options["sampling_period"],
        time_label="time (ms)",
        values=x[:, :, 0],
        value_label="amplitude",
        used=used,
        outcomes=[f"class {t}, predicted {p}" for t, p in zip(target, prediction.argmax(1))],
        marked=None,
    )


# Each makes Samples from a run's options, inputs [N, T, D], used [N, T], targets [N] and predictions [N, output_size]
TASKS = {"adding": _adding, "frequency_discrimination": _frequency}


def draw(samples: Samples):
    """A matplotlib figure with a panel for each sequence."""
    count, steps = samples.values.shape
    figure = new_figure(height=1.75 * count + 0.3)
    panels = figure.subplots(count, sharex=True, sharey=True, squeeze=False)[:, 0]
    for index, panel in enumerate(panels):
        _draw_sequence(panel, samples, index)
        used = samples.used[index].sum()
        panel.set_title(f"{samples.outcomes[index]}, used {used} of {steps}", loc="left", fontsize=10)
    panels[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncol=3, frameon=False, borderpad=0)
    panels[-1].set_xlabel(samples.time_label)
    return figure


def _draw_sequence(panel, samples: Samples, index: int) -> None:
    times, values, used = samples.times, samples.values[index], samples.used[index]
    panel.axhline(0, color="0.85", linewidth=0.8, zorder=1)
    kinds = [("used", used, USED), ("skipped", ~used, SKIPPED)]
    if samples.marked is None:
        panel.plot(times, values, **WAVE)
    else:
        kinds.append(("marked: to be added up", samples.marked[index], MARKED))
    for label, chosen, style in kinds:
        panel.plot(times[chosen], values[chosen], linestyle="none", label=label, **style)
    panel.set_ylabel(samples.value_label)
    step = times[1] - times[0] if len(times) > 1 else 1
    panel.set_xlim(times[0] - step, times[-1] + step)
    panel.margins(y=0.18)
    panel.spines[["top", "right"]].set_visible(False)
