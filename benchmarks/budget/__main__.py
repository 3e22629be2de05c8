"""``python -m benchmarks.budget``: budgets compared on small data sets, in plain torch.

Every run appends a line of JSON to ``--output``; a run that the file holds already is not repeated.
"""

import argparse
import json
import warnings
from itertools import product
from pathlib import Path
from typing import Iterator

import torch

from .data import LAMBDAS, SETS, Data
from .picture import draw
from .rules import RULES
from .table import print_tables
from .train import CELLS, train

FRACTIONS = (0.5, 0.25, 0.1)
KEY = ("set", "rule", "value", "ramp", "cell", "gate_init", "seed", "updates", "cost_per_sample")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.budget", description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["recordings", "adding", "frequency"])
    parser.add_argument("--rules", nargs="+", choices=RULES, default=["target"])
    parser.add_argument(
        "--values",
        nargs="+",
        type=float,
        help="target fractions (l1, l2: of the mean length), or lambdas of the rule fixed (default: 0.5 0.25 0.1, or "
        "five lambdas, by the set)",
    )
    parser.add_argument(
        "--costs", nargs="+", type=float, help="lambdas of the rules l1 and l2 (default: five lambdas, by the set)"
    )
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=["gru"])
    parser.add_argument("--gate-init", nargs="+", choices=("authors", "zeros"), default=["authors"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--updates", type=int, help="training updates (default: 1500 to 2500, by the set)")
    parser.add_argument("--mnist", type=Path, help="the folder of the MNIST database, for the set mnist")
    parser.add_argument("--imdb", type=Path, help="aclImdb or its .tar.gz, for the set imdb")
    parser.add_argument("--smartwatch", type=Path, help="the .npz of recipes/smartwatch.sh, for the set smartwatch")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/budget.jsonl"))
    parser.add_argument(
        "--ramp", type=int, help="training updates of the ramp, for the rule target (default: a fifth of all)"
    )
    parser.add_argument("--table", action="store_true", help="only print the tables of what the file holds")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw what the file holds: metric against samples used"
    )
    args = parser.parse_args()
    paths = {"mnist": args.mnist, "imdb": args.imdb, "smartwatch": args.smartwatch}
    for name in args.sets:
        if not args.table and name in paths and paths[name] is None:
            parser.error(f"--{name}: expected the path of the data, for --sets {name}")
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message=".*target_fraction", category=UserWarning)  # the table says it
    rows = read(args.output)
    if not args.table:
        run_missing(args, paths, rows)
    print_tables(rows)
    if args.plot is not None:
        draw(rows, args.plot)


def read(path: Path) -> list:
    """The runs in a file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [{"cost_per_sample": None, **json.loads(line)} for line in lines]


def choices(args: argparse.Namespace, name: str, data: Data) -> Iterator[dict]:
    """What the runs of a set differ in, but for the seed: what a rule is made from, and the model."""
    for rule in args.rules:
        for value in args.values or (LAMBDAS[name] if rule == "fixed" else FRACTIONS):
            costs = (args.costs or LAMBDAS[name]) if rule in ("l1", "l2") else [None]
            ramp = (args.ramp or max(data.updates // 5, 1)) if rule == "target" else None
            for cost, cell, gate_init in product(costs, args.cells, args.gate_init):
                one = {"rule": rule, "value": value, "ramp": ramp, "cell": cell, "gate_init": gate_init}
                yield {**one, "cost_per_sample": cost}


def run_missing(args: argparse.Namespace, paths: dict, rows: list) -> None:
    """Make the runs that ``rows`` lacks, and add them to it and to the file."""
    done = {tuple(row[name] for name in KEY) for row in rows}
    for name in args.sets:
        data = SETS[name](paths.get(name))
        data = data if args.updates is None else data._replace(updates=args.updates)
        mean_length = float(data.train.lengths.double().mean())
        for seed, choice in product(args.seeds, list(choices(args, name, data))):
            run = {"set": name, "seed": seed, "updates": data.updates, **choice}
            if tuple(run[part] for part in KEY) in done:
                continue
            rule, cost = choice["rule"], choice["cost_per_sample"]
            more = {"target": [choice["ramp"]], "l1": [cost, mean_length], "l2": [cost, mean_length]}.get(rule, [])
            budget = RULES[rule](choice["value"], *more)
            row = {**run, **train(data, choice["cell"], budget, seed, choice["gate_init"])}
            rows.append(row)
            args.output.parent.mkdir(parents=True, exist_ok=True)
            with open(args.output, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print({name: value for name, value in row.items() if name != "trail"}, flush=True)


if __name__ == "__main__":
    main()
