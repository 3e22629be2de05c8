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
from ..quiet import quiet_imports
from ..reading import describe_os_error
from ..version import __version__


def add_version(parser: argparse.ArgumentParser) -> None:
    """``--version``: prints the version of this package, which all commands share."""
    parser.add_argument("--version", action="version", version=f"skiprnn-plugin {__version__}")


def run_command(name: str, function: Callable[..., Optional[str]], *arguments) -> int:
    """Call ``function``, print the text that it returns, and return the exit code.

    A :class:`UserError`, an OSError, such as for a file that may not be read, and that fairseq is missing, is printed
    on standard error as one line, and the exit code is 2; Ctrl-C makes it 130.
    Characters that a terminal's encoding lacks are printed as Python's escapes.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with _quiet():
            result = function(*arguments)
        if result is not None:
            _print_result(result)
    except UserError as error:
        message = str(error)
    except BrokenPipeError:  # of output that the function prints itself
        raise
    except OSError as error:
        message = _describe(error)
    except ModuleNotFoundError as error:
        message = explain(error)
        if message is None:
            raise
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130  # 128 + the number of SIGINT, as in shells
    else:
        return 0
    print(f"{name}: error: {message}", file=sys.stderr)
    return 2


def _print_result(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:  # head and less stop reading early
        drop_output()


def _describe(error: OSError) -> str:
    """As :func:`describe_os_error`, and if standard output can't be written, on a full disk for instance, that."""
    try:
        print(end="", flush=True)
    except OSError as unwritten:
        drop_output()
        return f"standard output: {unwritten.strerror}"
    return describe_os_error(error)


def drop_output() -> None:
    """Drop what is still to be printed, as it can't be. Python would otherwise report the error again when it
    flushes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _quiet():
    """Silence what fairseq, hydra, torch, matplotlib and users' plugins print, log and warn, also on import."""
    with quiet_imports(), contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def as_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))
