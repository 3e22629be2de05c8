"""Shared by the console commands: errors are printed on one line, and standard output holds only results."""

import argparse
import contextlib
import io
import os
import sys
import warnings
from typing import Callable, Optional, Sequence

from .._fairseq.missing import explain
from ..arguments import UserError
from ..quiet import no_notes
from ..version import __version__


def add_version(parser: argparse.ArgumentParser) -> None:
    """``--version``: prints the version of this package, which all commands share."""
    parser.add_argument("--version", action="version", version=f"skiprnn-plugin {__version__}")


def run_command(name: str, function: Callable[..., Optional[str]], *arguments) -> int:
    """Call ``function``, print the text that it returns, and return the exit code.

    A :class:`UserError`, and that fairseq is missing, is printed on standard error as one line, and the exit code is 2;
    Ctrl-C makes it 130.
    Characters that a terminal's encoding lacks are printed as Python's escapes.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with _quiet():
            result = function(*arguments)
    except UserError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        message = explain(error)
        if message is None:
            raise
        print(f"{name}: error: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130  # 128 + the number of SIGINT, as in shells
    if result is not None:
        try:
            print(result, flush=True)
        except BrokenPipeError:  # head and less stop reading early
            drop_output()
    return 0


def drop_output() -> None:
    """Drop what is still to be printed, as nobody reads it. Python would otherwise report the broken pipe again when it
    flushes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _quiet():
    """Silence what fairseq, hydra, torch, matplotlib and users' plugins print, log and warn, also on import."""
    with no_notes(), contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def as_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))
