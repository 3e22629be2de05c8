"""``python -m benchmarks.trained``: trained models on their own data, beside torch's GRU or LSTM of the same size.

Whereas :mod:`benchmarks.run` sets the fraction of updates, here the gate has learned it. Everything that a training
update or a prediction of a user's model does is timed: embedding, dropout, head, loss, gradients, clipping and Adam.
Only our models have zoneout, recurrent dropout and layer norm, as torch's modules have none. Everything runs on the
CPU.
"""

import argparse
import copy
import dataclasses
import sys
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from tqdm import tqdm

from skiprnn_plugin.arguments import UserError, as_option
from skiprnn_plugin.cli.command import as_table, run_command
from skiprnn_plugin.cli.loading import RUN_HELP, add_loading_arguments, prepare_loading
from skiprnn_plugin.models.skip_rnn import SkipRNNModel
from skiprnn_plugin.runs.checkpoint import Loaded, load_checkpoint
from skiprnn_plugin.runs.find import find_file, find_files, is_checkpoint
from skiprnn_plugin.runs.rows import describe
from skiprnn_plugin.runs.tradeoff import find_experiment

from .command import begin_report, check_options, describe_origin, write_report
from .timing import time_interleaved

MODES = ("training", "inference", "one by one")
PEERS = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}
SHARED = ("batch_size", "hidden_size", "num_layers", "dropout", "input_dropout")  # must be equal in all runs


class TorchRecurrence(nn.Module):
    """torch's module in place of a Skip RNN. It is called in the same way and updates at every step.

    If sequences differ in length, they are packed, or read together with their padding. The latter computes more, but
    the time that torch takes for the gradients of packed sequences grows with the square of the length.
    """

    def __init__(self, cell: str, like: nn.Module, packed: bool):
        super().__init__()
        self.flops_per_update = like.flops_per_update
        self.packed = packed
        dropout = like.dropout if like.num_layers > 1 else 0.0  # torch warns of dropout in a single layer
        self.rnn = PEERS[cell](like.input_size, like.hidden_size, like.num_layers, batch_first=True, dropout=dropout)

    def forward(self, x, lengths=None, schedule=None, noise=None, last_only=False):
        batch, steps = x.shape[:2]
        lengths = torch.full((batch,), steps) if lengths is None else lengths.cpu()
        updates = (torch.arange(steps) < lengths[:, None]).to(x)
        if self.packed:
            x = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, _ = self.rnn(x)
        if self.packed:
            output, _ = pad_packed_sequence(output, batch_first=True, total_length=steps)
        return output[torch.arange(batch), lengths - 1] if last_only else output, None, updates


class Timed(NamedTuple):
    """Functions to time: ``run`` is called again and again, ``refresh`` before each call."""

    run: Callable[[], None]
    refresh: Callable[[], None] = lambda: None


def make_peers(loaded: Loaded) -> Dict[str, Loaded]:
    """The model with torch's recurrence, not trained, instead of ours; also with packing if lengths differ."""
    dataset = loaded.dataset
    batch = dataset.collater([dataset[i] for i in range(min(len(dataset), loaded.options["batch_size"]))])
    peers = {}
    for packed in (False, True) if "lengths" in batch["net_input"] else (False,):
        model = copy.deepcopy(loaded.model)
        model.rnn = TorchRecurrence(loaded.options["cell"], model.rnn, packed)
        model.has_gate = model.decisions.exist = False
        peers[peer_name(loaded) + (", packed" if packed else "")] = dataclasses.replace(loaded, model=model)
    return peers


def peer_name(loaded: Loaded) -> str:
    return f"torch.nn.{PEERS[loaded.options['cell']].__name__}"


def prepare(loaded: Loaded, mode: str, sequences: int) -> Timed:
    """A pass over the split's first sequences: training updates without effect (learning rate 0), or predictions."""
    dataset, size = loaded.dataset, 1 if mode == "one by one" else loaded.options["batch_size"]
    chosen = range(sequences)
    batches = [dataset.collater([dataset[i] for i in chosen[start : start + size]]) for start in chosen[::size]]
    model = copy.deepcopy(loaded.model).train(mode == "training")
    if mode != "training":
        return Timed(partial(_predict, model, batches))
    criterion = loaded.task.build_criterion(loaded.cfg.criterion).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
    return Timed(partial(_train, model, criterion, optimizer, batches))


def _predict(model: nn.Module, batches: Sequence[Dict[str, Any]]) -> None:
    with torch.inference_mode():
        for batch in batches:
            model(**batch["net_input"])


def _train(model: nn.Module, criterion, optimizer, batches: Sequence[Dict[str, Any]]) -> None:
    for batch in batches:
        loss, size, _ = criterion(model, batch)
        (loss / size).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def fraction_used(loaded: Loaded, sequences: int) -> float:
    """The fraction of updated steps in the sequences that are timed."""
    dataset = loaded.dataset
    batch = dataset.collater([dataset[i] for i in range(sequences)])
    with torch.inference_mode():
        output = loaded.model(**batch["net_input"])
    return (output.updates.sum() / output.steps.sum()).item()


def measure(
    models: Dict[str, Loaded], fractions: Dict[str, float], mode: str, count: int, seconds: float
) -> List[Dict[str, Any]]:
    """Time each model on ``count`` sequences. Returns an entry for each; ``times_torch`` says how many times as fast as
    the better of torch's models it is."""
    timed = {name: prepare(loaded, mode, count) for name, loaded in models.items()}
    for model in timed.values():
        model.run()  # warm-up
    times = time_interleaved(timed, seconds, "cpu")
    middle = {name: median(seconds) / count for name, seconds in times.items()}
    return [
        {
            "mode": mode,
            "model": name,
            "fraction_used": fractions[name],
            "sequences": count,
            "runs": len(times[name]),
            "seconds_per_sequence": middle[name],
            "times_torch": min(middle[peer] for peer in middle if peer.startswith(peer_name(loaded))) / middle[name],
        }
        for name, loaded in models.items()
    ]


def as_markdown(report: Dict[str, Any]) -> str:
    machine, versions = report["machine"], report["versions"]
    entries = report["measurements"]
    modes = list(dict.fromkeys(entry["mode"] for entry in entries))
    lines: Dict[str, List[str]] = {}
    for entry in entries:
        line = lines.setdefault(entry["model"], [entry["model"], f"{entry['fraction_used']:.1%}"])
        line.append(f"{1000 * entry['seconds_per_sequence']:.3g} ms, {entry['times_torch']:.2f}")
    count = " or ".join(map(str, sorted({entry["sequences"] for entry in entries})))
    return (
        f"{report['task']}, split {report['split']}, {count} sequences; {machine['processor']}, {report['threads']} "
        f"threads, torch {versions['torch']}; {describe_origin(report)}.\n"
        "Median time per sequence, and how many times as fast as the better of torch's models that is.\n\n"
        + as_table(["model", "used", *modes], list(lines.values()))
        + "\n"
    )


def load(file: Path, split: Optional[str], overrides: Dict[str, Any]) -> Loaded:
    """Load a checkpoint's model on the CPU.

    Raises :class:`UserError` if the model can't be trained here, or if torch has no module that corresponds to it.
    """
    if not is_checkpoint(file):
        raise UserError(f"{file}: expected a checkpoint (*.pt) or a save-dir that holds one")
    loaded = load_checkpoint(file, split, overrides)
    if not isinstance(loaded.model, SkipRNNModel):
        raise UserError(f"{file}: expected a model skip_rnn, got one of --arch {loaded.options['arch']}")
    if loaded.options["bidirectional"]:
        raise UserError(f"{file}: expected a model of one direction, got one of two")
    if loaded.options["batch_size"] is None:
        raise UserError(f"{file}: expected a model trained with --batch-size, got one without")
    try:
        loaded.model.rnn.check_engine()
    except ValueError as error:
        raise UserError(f"{file}: {error}") from error
    loaded.model.cpu()
    return loaded


def gather(runs: Sequence[Loaded]) -> Dict[str, Loaded]:
    """The models to time, by name: those of the runs, and torch's models before the first run that has their cell."""
    find_experiment(runs)
    models: Dict[str, Loaded] = {}
    for loaded in runs:
        for name in SHARED:
            expected, got = runs[0].options[name], loaded.options[name]
            if got != expected:
                raise UserError(
                    f"{loaded.path}: expected {as_option(name)} {expected}, as {runs[0].path} has it, got {got}"
                )
        if peer_name(loaded) not in models:
            models.update(make_peers(loaded))
        if models.setdefault(describe(loaded.options), loaded) is not loaded:
            raise UserError(f"{loaded.path}: expected one run of each model, got two of {describe(loaded.options)}")
    return models


def run(args: argparse.Namespace) -> str:
    check_options(args, {"sequences": 1, "threads": 1})
    torch.set_num_threads(args.threads)
    overrides = prepare_loading(args)
    files = find_files(args.runs, partial(find_file, checkpoint=args.checkpoint))
    models = gather([load(file, args.split, overrides) for file in files])
    first = next(iter(models.values()))
    settings = {"task": first.cfg.task._name, "split": first.split, "batch_size": first.options["batch_size"]}
    report = begin_report(**settings, threads=args.threads)
    count = min(args.sequences, *(len(loaded.dataset) for loaded in models.values()))
    fractions = {name: fraction_used(loaded, count) for name, loaded in models.items()}
    for mode in tqdm(args.modes, unit="mode", file=sys.stderr):
        report["measurements"] += measure(models, fractions, mode, count, args.seconds)
    write_report(report, args.output)
    return as_markdown(report)


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trained", description=__doc__.splitlines()[0])
    parser.add_argument("runs", metavar="RUN", nargs="+", help=RUN_HELP)
    parser.add_argument("--split", help="the split to read (default: the split that the task's table reports)")
    parser.add_argument("--checkpoint", choices=("last", "best"), help="the checkpoint to take from a save-dir")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES, help="what to time (default: all)")
    parser.add_argument("--sequences", type=int, default=256, help="the most sequences to time (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="seconds for each mode (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="JSON file to write all numbers to")
    add_loading_arguments(parser)
    return run_command("benchmarks.trained", run, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
