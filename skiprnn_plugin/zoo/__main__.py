"""``python -m skiprnn_plugin.zoo`` lists the zoo's models; with a name it prints the path of that model's checkpoint,
for fairseq's own commands."""

import argparse
import sys
from typing import Optional, Sequence

from . import PREFIX, card, find, names


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m skiprnn_plugin.zoo",
        description="List the trained models that come with the package; with NAME, print the path of its checkpoint.",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help=f"a model, with or without {PREFIX} before its name")
    parser.add_argument("--card", action="store_true", help="print the model's card instead")
    args = parser.parse_args(argv)
    if args.name is None:
        if args.card:
            parser.error("--card: expected a NAME")
        print("\n".join(PREFIX + name for name in names()))
        return 0
    try:
        print(card(args.name) if args.card else find(args.name))
    except FileNotFoundError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
