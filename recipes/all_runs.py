"""Trains the runs that the results of the paper's tables lack. all.sh starts it, and describes its options."""

import argparse
import contextlib
import csv
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from tqdm import tqdm

from skiprnn_plugin.arguments import as_option
from skiprnn_plugin.cli.report import as_markdown
from skiprnn_plugin.locking import HeldByAnother, lock
from skiprnn_plugin.runs.groups import group_runs
from skiprnn_plugin.runs.history import read_log_history
from skiprnn_plugin.runs.rows import find_row
from skiprnn_plugin.runs.run import History, Run
from skiprnn_plugin.runs.saved import as_saved, read_saved
from skiprnn_plugin.runs.tables import TABLES, Row, Table
from skiprnn_plugin.writing import write_whole

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "docs/results", ROOT / "docs/results.md"
BEST = "The best checkpoint by validation loss, instead of the last:\n\n"
# What precedes a table on the page, which says nothing of tables without results
LEADS = {"best/adding": BEST, "best/frequency-1ms": BEST, "imdb-400": "At 400 words:\n\n"}
FINISHED = ("table", "row", "seed", "max_update", "minutes", "date", "machine")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
BAR = "{percentage:3.0f}%|{bar}| of an estimated {total:.1f} hours of one core, {elapsed} < {remaining}{postfix}"


@dataclass(frozen=True)
class Experiment:
    """How the runs of a table are trained.

    Attributes:
        recipe: the file in this folder.
        max_update: training updates of a run.
        seconds: estimated time of a training update of a GRU on one core, while every step is updated.
        environment: what the recipe reads from the environment.
        data: the option with the path of the table's data; None if the sequences are drawn on the fly.
    """

    recipe: str
    max_update: int
    seconds: float
    environment: Dict[str, str] = field(default_factory=dict)
    data: Optional[str] = None

    @property
    def checkpoints(self) -> Tuple[str, ...]:
        """The checkpoints to report: the table's own first."""
        return ("best",) if self.data else ("last", "best")


# Rough times, for the order of the runs and the estimates: of an AMD EPYC core with AVX2, by the logs of single runs
EXPERIMENTS = {
    "adding": Experiment("adding.sh", 60000, 0.03),
    "frequency-1ms": Experiment("frequency.sh", 60000, 0.15, {"SAMPLING_PERIODS": "1"}),
    "frequency-0.5ms": Experiment("frequency.sh", 60000, 0.3, {"SAMPLING_PERIODS": "0.5"}),
    "imdb-200": Experiment("imdb.sh", 4200, 0.42, {"LENGTHS": "200"}, "imdb"),
    "imdb-400": Experiment("imdb.sh", 4200, 0.84, {"LENGTHS": "400"}, "imdb"),
    "mnist": Experiment("mnist.sh", 129000, 1.25, {}, "mnist"),
}
SOLVED_EARLY = 0.3  # the share of the training updates that a model with every step updated needs to solve its task


@dataclass(frozen=True)
class Job:
    """A run that the results lack: a row of a table with one seed."""

    table: Table
    row: Row
    seed: int
    max_update: int

    @property
    def experiment(self) -> Experiment:
        return EXPERIMENTS[self.table.name]

    @property
    def name(self) -> str:
        return f"{self.table.name}, {self.row.name}, seed {self.seed}"

    @property
    def seconds(self) -> float:
        """The estimated time of the run."""
        ends_early = self.experiment.data is None and self.row.update_rule == "full"
        updates = self.max_update * (SOLVED_EARLY if ends_early else 1)
        return updates * self.experiment.seconds * (4 / 3 if self.row.cell == "lstm" else 1)

    def folder(self, runs: Path) -> Path:
        """Where the recipe saves the run."""
        return runs / self.table.name / self.row.name / f"seed{self.seed}"

    def seconds_done(self, runs: Path) -> float:
        """The part of ``seconds`` that has been trained."""
        log = self.folder(runs) / "train.log"
        if not log.is_file():
            return 0.0
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20000))  # the end of a long file
            found = re.findall(rb'num_updates": "?(\d+)', file.read())
        return min(1.0, int(found[-1]) / self.max_update) * self.seconds if found else 0.0

    def minutes_trained(self, runs: Path) -> float:
        """The time that training took, without validation, over all parts of a run that was resumed."""
        text = (self.folder(runs) / "train.log").read_text(encoding="utf-8", errors="replace")
        return sum(map(float, re.findall(r'"train_train_wall": "?([\d.]+)', text))) / 60


class Results:
    """The folder of results: a file for each table, and a list of the runs that have finished."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.finished = folder / "finished.tsv"

    def find_lacking(self, jobs: Sequence[Job]) -> List[Job]:
        """The jobs whose run has not finished, or only with fewer training updates."""
        longest: Dict[Tuple[str, str, str], int] = {}
        if self.finished.exists():
            with self.finished.open(newline="", encoding="utf-8") as file:
                for line in csv.DictReader(file, delimiter="\t"):
                    key = line["table"], line["row"], line["seed"]
                    longest[key] = max(longest.get(key, 0), int(line["max_update"]))
        return [job for job in jobs if longest.get((job.table.name, job.row.name, str(job.seed)), 0) < job.max_update]

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """A block in which no other process changes the results."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def add(self, job: Job, reports: Dict[str, Path], log: Path, minutes: float) -> None:
        """Add a finished run's reports, by checkpoint, in place of an earlier run of the same row and seed. The report
        of the table's own checkpoint gets the validations of the log."""
        for checkpoint, report in reports.items():
            is_own = checkpoint == job.experiment.checkpoints[0]
            file = (self.folder if is_own else self.folder / checkpoint) / f"{job.table.name}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            split = job.table.split
            kept = read_saved(file, split) if file.exists() else []
            others = [
                run for run in kept if (find_row(job.table, run.options), run.options["seed"]) != (job.row, job.seed)
            ]
            runs = read_saved(report, split)
            if is_own:
                runs = [with_validations(run, log, job.table) for run in runs]
            groups = group_runs([*others, *runs], job.table)
            lines = [as_saved(group, job.table, split) for group in groups if group.runs]
            write_whole(file, json.dumps(lines, indent=2) + "\n")
        numbers = job.table.name, job.row.name, job.seed, job.max_update, round(minutes)
        values = (*numbers, date.today(), describe_cores())
        old = self.finished.read_text(encoding="utf-8") if self.finished.exists() else "\t".join(FINISHED) + "\n"
        write_whole(self.finished, old + "\t".join(map(str, values)) + "\n")

    def write_tables(self) -> Path:
        """Write the tables of all results; returns the page."""
        tables = {}
        for name, table in TABLES.items():
            for part in ("", "best/"):
                file = self.folder / f"{part}{name}.json"
                if file.exists():
                    groups = [group for group in group_runs(read_saved(file, table.split), table) if group.runs]
                    tables[part + name] = as_markdown(groups, table, table.split)
        if self.folder != RESULTS:
            page = self.folder / "tables.md"
            write_whole(page, "".join(f"## {name}\n\n{text}\n\n" for name, text in tables.items()))
            return page
        text = PAGE.read_text(encoding="utf-8")
        for name, table in tables.items():
            begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
            if begin in text:  # a table without a place on the page is in its file only
                head, rest = text.split(begin)
                text = f"{head}{begin}\n{LEADS.get(name, '')}{table}\n\n{end}{rest.split(end)[1]}"
        write_whole(PAGE, text)
        return PAGE


def with_validations(run: Run, log: Path, table: Table) -> History:
    """The run with what its log says of the validations: the table's metrics, the fraction used, and when it was."""
    names = {"epoch", "num_updates", "update_fraction", *(column.metric for column in table.columns)}
    validations = [
        {name: value for name, value in validation.items() if name in names}
        for validation in read_log_history(log, "valid").validations
    ]
    return History(**vars(run), validations=validations)


def describe_cores() -> str:
    from benchmarks.machine import describe_machine  # imports torch

    machine = describe_machine("cpu")
    return f"{machine['cores']} cores, {machine['processor']}, {machine['instructions']}"


class Queue:
    """Runs recipes in the background, as many at a time as there are ``slots``."""

    def __init__(self, runs: Path, results: Results, data: Dict[str, Path], slots: int):
        self.runs, self.results, self.data, self.slots = runs, results, data, slots
        self.active: Dict[subprocess.Popen, Job] = {}
        self.failed: List[Job] = []
        self.folder = runs / "all"
        self.folder.mkdir(parents=True, exist_ok=True)
        # The recipes inherit the lock, so it is held until they have ended, even if this process is killed
        self.lock = (self.folder / "lock").open("w")
        try:
            lock(self.lock.fileno())
        except HeldByAnother:
            raise ValueError(f"RUNS: {runs} is in use by another all.sh, or by recipes that it left running") from None

    def work(self, jobs: Sequence[Job], end: float) -> int:
        """Run the jobs until the time ``end`` or a signal; returns the exit status."""
        waiting = list(jobs)
        done = 0.0
        with count_signals() as signals:
            try:
                with tqdm(total=sum_hours(jobs), bar_format=BAR) as bar:
                    while (waiting or self.active) and not signals and time.time() < end:
                        while waiting and len(self.active) < self.slots:
                            self.start(waiting.pop(0))
                        for process in [process for process in self.active if process.poll() is not None]:
                            job = self.active.pop(process)
                            done += job.seconds
                            bar.write(self.finish(job, process.returncode), file=sys.stderr)
                        partly = sum(job.seconds_done(self.runs) for job in self.active.values())
                        bar.n = min(bar.total, (done + partly) / 3600)
                        bar.set_postfix_str(f"{len(self.active)} running, {len(waiting)} waiting")
                        time.sleep(1)
            finally:
                self.stop(signals)
        if waiting or self.active:
            print("stopped; run the same command again to resume", file=sys.stderr)
        return 130 if signals else 1 if self.failed else 0

    def start(self, job: Job) -> None:
        arguments = [str(self.data[job.experiment.data])] if job.experiment.data else []
        environment = {**os.environ, **job.experiment.environment}
        environment.update(RUNS=str(self.runs), SEEDS=str(job.seed), JOBS="1", MAX_UPDATE=str(job.max_update))
        if "word2vec" in self.data:
            environment["WORD2VEC"] = str(self.data["word2vec"])
        with self.find_output(job).open("ab") as output:
            process = subprocess.Popen(
                ["bash", str(ROOT / "recipes" / job.experiment.recipe), *arguments, job.row.name],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,  # Ctrl-C in a terminal goes to this process alone, which passes it on
                pass_fds=(self.lock.fileno(),),
            )
        self.active[process] = job

    def find_output(self, job: Job) -> Path:
        return self.folder / f"{job.table.name}-{job.row.name}-seed{job.seed}.log"

    def finish(self, job: Job, status: int) -> str:
        """Keep the results of a run that has ended; returns what to tell."""
        try:
            if status != 0:
                raise RuntimeError(f"status {status}")
            reports = {checkpoint: self.evaluate(job, checkpoint) for checkpoint in job.experiment.checkpoints}
            with self.results.alone():
                log = job.folder(self.runs) / "train.log"
                self.results.add(job, reports, log, job.minutes_trained(self.runs))
                page = self.results.write_tables()
            return f"{job.name}: finished; its numbers are in {page}"
        except Exception as error:  # whatever is wrong with one run, the others go on
            self.failed.append(job)
            return f"error: {job.name}: {error}; see the end of {self.find_output(job)}"

    def evaluate(self, job: Job, checkpoint: str) -> Path:
        """Evaluate a checkpoint of a run on the table's split; returns the file with the report."""
        folder = job.folder(self.runs)
        command = ["skiprnn-report", os.path.relpath(folder, ROOT), "--table", job.table.name, "--json"]
        process = subprocess.run(
            [*command, "--checkpoint", checkpoint],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
            capture_output=True,
            text=True,
        )
        if process.returncode != 0:
            lines = process.stderr.strip().splitlines()
            raise RuntimeError(lines[-1] if lines else f"skiprnn-report ended with status {process.returncode}")
        file = folder / f"report-{checkpoint}.json"
        write_whole(file, process.stdout)
        return file

    def stop(self, signals: List[int]) -> None:
        """Let the active runs save, and wait for them. A further signal ends them at once."""
        passed_on = -1
        while any(process.poll() is None for process in self.active):
            if len(signals) > passed_on:
                passed_on = len(signals)
                for process in self.active:
                    process.terminate()
            time.sleep(0.2)


@contextlib.contextmanager
def count_signals() -> Iterator[List[int]]:
    """A context in which SIGINT and SIGTERM are only noted, in a list."""
    signals: List[int] = []
    old = {name: signal.signal(name, lambda number, frame: signals.append(number)) for name in SIGNALS}
    try:
        yield signals
    finally:
        for name, handler in old.items():
            signal.signal(name, handler)


def sum_hours(jobs: Sequence[Job]) -> float:
    return sum(job.seconds for job in jobs) / 3600


def main() -> int:
    args = parse_arguments()
    os.chdir(ROOT)
    data = {name: getattr(args, name) for name in ("mnist", "imdb", "word2vec") if getattr(args, name)}
    chosen = []
    for name, experiment in EXPERIMENTS.items():
        if args.only and name not in args.only:
            continue
        if experiment.data and experiment.data not in data and not args.plan:
            print(f"{name}: left out; it needs --{experiment.data}", file=sys.stderr)
            continue
        rows = [row for row in TABLES[name].rows if not args.rows or row.name in args.rows]
        max_update = args.max_update or experiment.max_update
        chosen += [Job(TABLES[name], row, seed, max_update) for row in rows for seed in args.seeds]
    if not chosen:
        raise ValueError("--only, --rows: expected at least one run, got none that can be trained")
    results = Results(args.results)
    lacking = sorted(results.find_lacking(chosen), key=lambda job: (job.seconds, job.seed))
    if args.plan:
        for job in lacking:
            print(f"{job.name}: {job.max_update:,} training updates, about {job.seconds / 3600:.1f} hours of one core")
        for name in EXPERIMENTS:
            jobs = [job for job in lacking if job.table.name == name]
            if jobs:
                print(f"{name}: {len(jobs)} runs, about {sum_hours(jobs):.0f} hours of one core")
        print(f"{len(lacking)} of {len(chosen)} runs are lacking: about {sum_hours(lacking):.0f} hours of one core")
        return 0
    if not lacking:
        print(f"no run is lacking; the tables are in {results.write_tables()}", file=sys.stderr)
        return 0
    queue = Queue(args.runs, results, data, args.jobs)
    return queue.work(lacking, time.time() + 3600 * args.until)


def parse_arguments() -> argparse.Namespace:
    """The options, with absolute paths. A wrong one ends the program with one line."""
    parser = argparse.ArgumentParser(prog="recipes/all.sh", usage=argparse.SUPPRESS, allow_abbrev=False)
    parser.add_argument("--relative-to", type=Path)  # the folder that paths are relative to; all.sh gives it
    parser.add_argument("--until", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS)
    parser.add_argument(
        "--rows", nargs="+", choices=sorted({row.name for name in EXPERIMENTS for row in TABLES[name].rows})
    )
    parser.add_argument("--max-update", type=int)
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--results", type=Path, default=RESULTS)
    for name in ("mnist", "imdb", "word2vec"):
        parser.add_argument(f"--{name}", type=Path)
    args = parser.parse_args()
    for name in ("jobs", "max_update"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            parser.error(f"{as_option(name)}: expected a whole number of at least 1, got {getattr(args, name)}")
    if not args.until > 0:
        parser.error(f"--until: expected a number of hours above 0, got {args.until}")
    if min(args.seeds) < 1 or len(set(args.seeds)) < len(args.seeds):
        parser.error(f"--seeds: expected different whole numbers of at least 1, got {' '.join(map(str, args.seeds))}")
    for name in ("results", "mnist", "imdb", "word2vec"):
        path = getattr(args, name)
        if path is not None:
            path = args.relative_to / path
            if name != "results" and not path.exists():
                parser.error(f"--{name}: no such file or folder: {path}")
            setattr(args, name, path.resolve())
    args.runs = Path(os.environ.get("RUNS") or ROOT / "runs").resolve()
    return args


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
