"""``skiprnn-export``: writes a trained model to a file that other programs can run."""

import argparse
import io
import sys
from pathlib import Path
from typing import Optional, Sequence, Tuple

from ..arguments import UserError
from ..runs.checkpoint import load_named_hub
from .command import add_version, run_command
from .loading import HUB_HELP, add_loading_arguments, prepare_loading

PROGRAM = "skiprnn-export"
DESCRIPTION = """
Write a trained model to a file: OUT.safetensors (its weights and what is needed to use them; for programs in any
language, such as examples/c), OUT.h (C99 for microcontrollers), OUT.onnx (for onnxruntime and others) or OUT.pt2 (a
program of torch.export). The model must read numbers (not token ids), in one direction.
"""
KINDS = {"step": (".onnx", ".h"), "sequence": (".onnx", ".pt2")}  # what a format can hold
SUFFIXES = (".safetensors", ".h", ".onnx", ".pt2")
WITHOUT_INT8 = {  # why a format can't hold int8 weights
    ".safetensors": "the file holds the weights as trained; libskiprnn rounds them itself, see skiprnn.h",
    ".onnx": "ONNX has no product of int8 weights and an int16 state, and int8 states ruin the gate",
    ".pt2": "torch has no product of int8 weights and an int16 state",
}


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=DESCRIPTION)
    add_version(parser)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=HUB_HELP)
    parser.add_argument(
        "output", metavar="OUT", type=Path, help=f"the file; the end of its name chooses one of {', '.join(SUFFIXES)}"
    )
    parser.add_argument(
        "--what",
        choices=tuple(KINDS),
        help="for OUT.onnx: step, which reads one sample and says when it wants the next one (the default), or "
        "sequence, which reads whole sequences",
    )
    parser.add_argument("--name", help="for OUT.h: what identifiers begin with (default: the name of the file)")
    parser.add_argument(
        "--weights",
        choices=("float32", "int8"),
        default="float32",
        help="for OUT.h: how the recurrent weights are stored; as int8 they take a quarter of the memory, and the "
        "model reads almost the same samples (default: %(default)s)",
    )
    add_loading_arguments(parser, ["update_threshold"])
    return run_command(PROGRAM, export, parser.parse_args(argv))


def export(args: argparse.Namespace) -> str:
    """Write the file; returns a line that says what is in it."""
    suffix = args.output.suffix
    if suffix not in SUFFIXES:
        raise UserError(f"OUT: expected a name that ends in {', '.join(SUFFIXES)}, got {args.output.name!r}")
    if args.what is not None and suffix not in KINDS[args.what]:
        raise UserError(f"--what: expected {' or '.join(KINDS[args.what])} for {args.what}, got {args.output.name!r}")
    if args.name is not None and suffix != ".h":
        raise UserError(f"--name: expected an OUT that ends in .h, got {args.output.name!r}")
    if args.weights == "int8" and suffix in WITHOUT_INT8:
        raise UserError(
            f"--weights: expected float32, or an OUT that ends in .h, got {args.output.name!r}; {WITHOUT_INT8[suffix]}"
        )
    name = args.output.stem.replace("-", "_") if args.name is None else args.name
    if suffix == ".h" and not (name.isascii() and name.isidentifier()):
        raise UserError(f"--name: expected letters, digits and _, not beginning with a digit, got {name!r}")
    if not args.output.parent.is_dir():
        raise UserError(f"OUT: no such folder: {args.output.parent}")
    hub = load_named_hub(args.checkpoint, prepare_loading(args))
    rnn = getattr(hub.model, "rnn", None)
    if getattr(rnn, "engine", None) == "int8":
        raise UserError(
            "--set engine=int8: expected --weights int8, for an OUT that ends in .h, to round weights in a file"
        )
    if suffix != ".pt2" and (getattr(rnn, "min_skip", 0) > 0 or getattr(rnn, "max_skip", None) is not None):
        raise UserError(
            f"{args.checkpoint}: expected a model without min_skip and max_skip, as only a .pt2 file can hold them; a "
            "program that calls the model can keep the steps to wait from N + 1 on (min_skip N), or up to N + 1 "
            "(max_skip N)"
        )
    from ..export.parts import collect_parts
    from ..writing import write_whole

    try:
        parts = collect_parts(hub)
        content, what = make(hub.model, parts, suffix, args.what, name, args.weights)
        write_whole(args.output, content)
    except ImportError as error:
        raise UserError(f"{suffix}: needs the package {error.name}; pip install '.[export]'") from error
    except OSError as error:
        raise UserError(f"{args.output}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{args.checkpoint}: {error}") from error
    return f"{args.output}: {what}, {args.output.stat().st_size:,} bytes"


def make(model, parts, suffix: str, what: Optional[str], name: str, weights: str) -> Tuple[bytes, str]:
    """The content of the file in the format of its suffix, and what to call it."""
    if suffix == ".safetensors":
        from ..export.safetensors_file import make_safetensors

        return make_safetensors(parts), "weights and metadata"
    if suffix == ".h":
        from ..export.c_header import make_header

        return make_header(parts, name, weights).encode(), "the source text of a model in C"
    if suffix == ".onnx":
        from ..export.onnx_file import make_onnx

        return make_onnx(parts, what or "step").SerializeToString(), f"an ONNX model that reads a {what or 'step'}"
    import torch

    from ..export.torch_program import make_program

    buffer = io.BytesIO()
    torch.export.save(make_program(model, parts), buffer)
    return buffer.getvalue(), "a program of torch.export"


if __name__ == "__main__":
    sys.exit(main())
