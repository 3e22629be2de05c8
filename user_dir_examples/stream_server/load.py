"""Many made-up sensors for server.py, which send what it wants as fast as they can.

    python user_dir_examples/stream_server/load.py --width 6 --clients 200 --steps 2000

Prints how many steps of the sensors' sequences the server got through in a second, and how many samples it read for
that. Start the server with ``--max-skip 0`` to see how many steps a second it manages if it wants every sample.
"""

import argparse
import asyncio
import json
import time
from typing import Tuple

import numpy as np
from websockets.asyncio.client import connect


async def sense(address: str, seed: int, width: int, steps: int) -> Tuple[int, int]:
    """One sensor, whose values are a random walk. Returns its steps and how many of them it has sent."""
    walk = np.random.default_rng(seed).normal(size=(steps, width)).cumsum(0) * 0.1
    sent = 0
    async with connect(address, compression=None) as connection:
        while True:
            answer = json.loads(await connection.recv())
            if "error" in answer:
                raise RuntimeError(answer["error"])
            want = answer["want"]
            if want is None or want >= steps:
                return steps, sent
            await connection.send(json.dumps({"index": want, "sample": walk[want].round(5).tolist()}))
            sent += 1


async def main(args: argparse.Namespace) -> str:
    start = time.perf_counter()
    found = await asyncio.gather(*(sense(args.address, seed, args.width, args.steps) for seed in range(args.clients)))
    seconds = time.perf_counter() - start
    steps, sent = map(sum, zip(*found))
    return (
        f"{args.clients} clients, {steps:,} steps, {sent / steps:.1%} of them sent, in {seconds:.1f} s: "
        f"{steps / seconds:,.0f} steps and {sent / seconds:,.0f} samples per second"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default="ws://127.0.0.1:8765", help="the server (default: %(default)s)")
    parser.add_argument("--width", type=int, required=True, help="numbers in a sample")
    parser.add_argument("--clients", type=int, default=200, help="number of sensors (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=2000, help="steps of each sequence (default: %(default)s)")
    print(asyncio.run(main(parser.parse_args())))
