"""``python -m benchmarks.budget``: budgets compared on small data sets, in plain torch.

Every run appends a line of JSON to ``--output``; a run that the file holds already is not repeated.
"""

import argparse
import json
import warnings
from itertools import product
from pathlib import Path

import torch

from .data import LAMBDAS, SETS
from .picture import draw
from .rules import RULES
from .table import print_tables
from .train import CELLS, train

FRACTIONS = (0.5, 0.25, 0.1)
KEY = ("set", "rule", "value", "ramp", "cell", "gate_init", "seed", "updates")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.budget", description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["recordings", "adding", "frequency"])
    parser.add_argument("--rules", nargs="+", choices=RULES, default=["target"])
    parser.add_argument(
        "--values",
        nargs="+",
        type=float,
        help="target fractions, or lambdas of the rule fixed (default: 0.5 0.25 0.1, or five lambdas, by the set)",
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
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_missing(args: argparse.Namespace, paths: dict, rows: list) -> None:
    """Make the runs that ``rows`` lacks, and add them to it and to the file."""
    done = {tuple(row[name] for name in KEY) for row in rows}
    for name in args.sets:
        data = SETS[name](paths.get(name))
        data = data if args.updates is None else data._replace(updates=args.updates)
        values = {rule: args.values or (LAMBDAS[name] if rule == "fixed" else FRACTIONS) for rule in args.rules}
        budgets = [(rule, value) for rule in args.rules for value in values[rule]]
        for seed, (rule, value), cell, gate_init in product(args.seeds, budgets, args.cells, args.gate_init):
            ramp = (args.ramp or max(data.updates // 5, 1)) if rule == "target" else None
            key = name, rule, value, ramp, cell, gate_init, seed, data.updates
            if key in done:
                continue
            budget = RULES[rule](value) if ramp is None else RULES[rule](value, ramp)
            row = {**dict(zip(KEY, key)), **train(data, cell, budget, seed, gate_init)}
            rows.append(row)
            args.output.parent.mkdir(parents=True, exist_ok=True)
            with open(args.output, "a") as file:
                file.write(json.dumps(row) + "\n")
            print({name: value for name, value in row.items() if name != "trail"}, flush=True)


if __name__ == "__main__":
    main()
