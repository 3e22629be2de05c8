"""Runs read from logs of ``fairseq-train --log-format json``: its ``--log-file`` or captured output."""

import argparse
import ast
import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from ..arguments import UserError
from .rows import reported_split
from .run import Run, collect_options


class Log(NamedTuple):
    """What a log of ``fairseq-train`` says of a held-out split.

    Attributes:
        options: see :class:`Run`; if the run was resumed, those of the last part.
        split: the split's name.
        validations: their lines of JSON, at least one.
    """

    options: Dict[str, Any]
    split: str
    validations: List[str]

    def numbers(self, validation: str) -> Dict[str, float]:
        """The metrics of a validation, without the split's name; ValueError if it is damaged."""
        prefix = f"{self.split}_"
        try:
            logged = json.loads(validation)
            numbers = {name[len(prefix) :]: float(value) for name, value in logged.items() if name.startswith(prefix)}
            return {**numbers, "num_updates": int(numbers["num_updates"])}
        except (KeyError, TypeError) as error:
            raise ValueError(str(error)) from error


def scan_log(path: Path, split: Optional[str]) -> Log:
    """Read a log of ``fairseq-train --log-format json``: its ``--log-file`` or captured output.

    Such a log holds the configuration, as Python prints it, and a line of JSON for each validation. ``split`` None
    means the split that the paper's tables of the task report.
    """
    config, logged = None, []
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if "{'_name'" in line:
                    config = line[line.index("{'_name'") :]
                elif '_loss"' in line and "{" in line and line.rstrip().endswith("}"):
                    # In a log that was cut, a line may lack its beginning or its end
                    logged.append(line[line.index("{") :])
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    if config is None:
        raise UserError(
            f"{path}: neither a checkpoint (*.pt) nor a log of fairseq-train (its configuration is missing)"
        )
    options = _parse_options(path, config)
    split = split or reported_split(options)
    validations = [line for line in logged if f'"{split}_loss"' in line]
    if not validations:
        raise UserError(f"{path}: no validation of split {split!r} in this log (--log-format json writes them)")
    return Log(options, split, validations)


def _parse_options(path: Path, text: str) -> Dict[str, Any]:
    try:
        return collect_options(_evaluate(ast.parse(text.strip(), mode="eval").body))
    except (ValueError, SyntaxError, KeyError, TypeError, IndexError) as error:
        raise UserError(f"{path}: a damaged log ({type(error).__name__} in its configuration)") from error


def _evaluate(node: ast.AST):
    """As :func:`ast.literal_eval`, and ``Namespace(...)``, which fairseq prints for what is configured by argparse.

    Numbers may be ``inf`` and ``nan``. Other names are texts: fairseq's enumerations print their members so.
    """
    if isinstance(node, ast.Dict):
        return {_evaluate(key): _evaluate(value) for key, value in zip(node.keys, node.values)}
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "Namespace":
        options = argparse.Namespace()
        for keyword in node.keywords:  # names that are none of Python's come as Namespace(**{...})
            value = _evaluate(keyword.value)
            vars(options).update(value if keyword.arg is None else {keyword.arg: value})
        return options
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand)
    if isinstance(node, ast.Name):
        return float(node.id) if node.id in ("inf", "nan") else node.id
    return ast.literal_eval(node)


def read_log(path: Path, split: Optional[str]) -> Run:
    """The last validation of a log; for ``split`` see :func:`scan_log`."""
    log = scan_log(path, split)
    try:
        numbers = log.numbers(log.validations[-1])
    except ValueError as error:
        raise UserError(f"{path}: a damaged log ({type(error).__name__} in its last validation)") from error
    drawn = "valid_seed" in log.options  # sequences are drawn on the fly, and all held-out sets have as many
    sequences = int(log.options["valid_size"]) if drawn else None
    return Run(path, {**log.options, "num_updates": numbers["num_updates"]}, numbers, sequences)
