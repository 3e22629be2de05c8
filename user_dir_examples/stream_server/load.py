"""Many made-up sensors for server.py, which send what it wants as fast as they can.

    python user_dir_examples/stream_server/load.py --width 6 --clients 200 --steps 2000

Prints how many steps of the sensors' sequences the server got through in a second, and how many samples it read for
that. Start the server with ``--max-skip 0`` to see how many steps a second it manages if it wants every sample.
"""

import argparse
import asyncio
import contextlib
import json
import time
from typing import Tuple

import numpy as np
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException


class Refused(Exception):
    """The server can't use what a client sent, or has no place for it; the text is the server's."""


FAILURES = (OSError, WebSocketException, Refused)


async def sense(address: str, seed: int, width: int, steps: int) -> Tuple[int, int]:
    """One sensor, whose values are a random walk. Returns its steps and how many of them it has sent.

    Raises one of ``FAILURES`` if that does not work.
    """
    walk = np.random.default_rng(seed).normal(size=(steps, width)).cumsum(0) * 0.1
    sent = 0
    async with connect(address, compression=None) as connection:
        while True:
            answer = json.loads(await connection.recv())
            if "error" in answer:
                raise Refused(answer["error"])
            want = answer["want"]
            if want is None or want >= steps:
                return steps, sent
            await connection.send(json.dumps({"index": want, "sample": walk[want].round(5).tolist()}))
            sent += 1


async def main(args: argparse.Namespace) -> str:
    """Run all clients. Those that fail do not stop the others.

    Raises the first one's error, one of ``FAILURES``, if all fail.
    """
    start = time.perf_counter()
    clients = (sense(args.address, seed, args.width, args.steps) for seed in range(args.clients))
    found = await asyncio.gather(*clients, return_exceptions=True)
    seconds = time.perf_counter() - start
    errors = [result for result in found if isinstance(result, BaseException)]
    unexpected = [error for error in errors if not isinstance(error, FAILURES)]
    if unexpected or len(errors) == len(found):
        raise (unexpected or errors)[0]
    steps, sent = map(sum, zip(*(result for result in found if isinstance(result, tuple))))
    text = (
        f"{len(found) - len(errors)} clients, {steps:,} steps, {sent / steps:.1%} of them sent, in {seconds:.1f} s: "
        f"{steps / seconds:,.0f} steps and {sent / seconds:,.0f} samples per second"
    )
    return text + (f"; {len(errors)} clients failed, the first by: {errors[0]}" if errors else "")


def positive(text: str) -> int:
    """An argument's type: an integer of at least 1."""
    with contextlib.suppress(ValueError):
        if int(text) >= 1:
            return int(text)
    raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got {text!r}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default="ws://127.0.0.1:8765", help="the server (default: %(default)s)")
    parser.add_argument("--width", type=positive, required=True, help="numbers in a sample")
    parser.add_argument("--clients", type=positive, default=200, help="number of sensors (default: %(default)s)")
    parser.add_argument("--steps", type=positive, default=2000, help="steps of each sequence (default: %(default)s)")
    args = parser.parse_args()
    try:
        print(asyncio.run(main(args)))
    except Refused as error:
        parser.error(f"the server at {args.address} answers: {error}")
    except FAILURES as error:
        parser.error(f"argument --address: {args.address}: {error}")
    except KeyboardInterrupt:
        pass
