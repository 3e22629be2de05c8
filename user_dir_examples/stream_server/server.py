"""A server that reads many sensors through WebSockets, and tells each one which of its samples it wants next.

    pip install websockets
    python user_dir_examples/stream_server/server.py runs/mine --port 8765

Messages are JSON. The server begins with ``{"want": 0}``. A client sends that sample of its sequence, ``{"index": 0,
"sample": [0.5, ...]}``, and gets ``{"want": 7, "prediction": [0.2, 0.8]}``: it need not measure the samples between.
``want`` is null once the model wants no further sample. A message that can't be used is answered by ``{"error": ...,
"want": ...}``, and changes nothing.

All clients are rows of one stream. Samples that arrive at about the same time are read in one call.
"""

import argparse
import asyncio
import contextlib
import json
import logging
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import torch
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.hub import SkipRNNHub, from_pretrained
from skiprnn_plugin.modules.stream import NEVER

MOST_BYTES = 1 << 16  # of a message


class BadMessage(ValueError):
    """A client's message can't be used; the text says why."""


class Rows:
    """The rows of a stream, and the samples that wait to be read.

    Args:
        hub: a trained model.
        capacity: the most clients at the same time.
        max_skip: how many steps are skipped after an update at most; 0 wants every sample.
    """

    def __init__(self, hub: SkipRNNHub, capacity: int, max_skip: Optional[int] = None):
        self.stream, self.width = hub.stream(capacity, max_skip=max_skip), hub.task.input_size
        self.free = list(reversed(range(capacity)))
        self.waiting: List[Tuple[int, np.ndarray, asyncio.Future]] = []
        self.arrived = asyncio.Event()
        self.batches = self.samples = 0

    def take(self) -> int:
        """A row for a new client, which begins a new sequence."""
        row = self.free.pop()
        self.stream.reset([row])
        return row

    def want(self, row: int) -> Optional[int]:
        wanted = int(self.stream.wanted[row])
        return None if wanted == NEVER else wanted

    def parse(self, row: int, text: Any) -> np.ndarray:
        """The sample of a message.

        Raises:
            BadMessage: the message is not the wanted sample.
        """
        try:
            message = json.loads(text)
            index, numbers = message["index"], message["sample"]
            if not all(type(number) in (int, float) for number in numbers):
                raise TypeError("numpy would take true, and texts such as '1.5', as numbers")
            sample = np.asarray(numbers, dtype=np.float64)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise BadMessage('expected {"index": integer, "sample": [numbers]}') from None
        if sample.shape != (self.width,):
            raise BadMessage(f"sample: expected {self.width} numbers, got shape {list(sample.shape)}")
        try:
            self.stream.normalize(sample)
        except ValueError:
            raise BadMessage("sample: expected finite numbers in the range of float32") from None
        wanted = self.want(row)
        if wanted is None:
            raise BadMessage("index: no further sample is wanted")
        if type(index) is not int or index != wanted:  # 0.0 and false are equal to 0
            raise BadMessage(f"index: expected {wanted}, got {index!r}")
        return sample

    async def read(self, row: int, sample: np.ndarray) -> List[float]:
        """Read the wanted sample of a row, together with those of others. Returns the row's prediction."""
        result = asyncio.get_running_loop().create_future()
        self.waiting.append((row, sample, result))
        self.arrived.set()
        return await result

    async def run(self) -> None:
        """Read what has arrived, again and again."""
        while True:
            await self.arrived.wait()
            await asyncio.sleep(0)  # all messages that are there are taken first
            self.arrived.clear()
            batch, self.waiting = self.waiting, []
            rows, samples, results = zip(*batch)
            places = torch.tensor(rows)
            self.stream.skip(self.stream.wanted[places] - self.stream.time[places], places)
            self.stream.update(np.stack(samples), places)
            self.batches, self.samples = self.batches + 1, self.samples + len(batch)
            for result, prediction in zip(results, self.stream.predict(places)):
                if not result.done():
                    result.set_result([round(float(value), 6) for value in prediction])


async def talk(rows: Rows, connection: ServerConnection) -> None:
    """Serve one client until it leaves."""
    if not rows.free:
        with contextlib.suppress(ConnectionClosed):  # the client may be gone already
            await connection.send(json.dumps({"error": f"all {rows.stream.batch_size} places are taken"}))
        return
    row = rows.take()
    try:
        await connection.send(json.dumps({"want": rows.want(row)}))
        async for text in connection:
            try:
                prediction = await rows.read(row, rows.parse(row, text))
                answer: Dict[str, Any] = {"want": rows.want(row), "prediction": prediction}
            except BadMessage as error:
                answer = {"error": str(error), "want": rows.want(row)}
            await connection.send(json.dumps(answer))
    except ConnectionClosed:
        pass  # the client is gone
    finally:
        rows.free.append(row)


async def main(args: argparse.Namespace) -> None:
    """Serve until there is an error.

    Raises:
        UserError: the model can't be loaded or has no stream.
        OSError: the port can't be opened.
    """
    try:
        rows = Rows(from_pretrained(args.checkpoint), args.capacity, args.max_skip)
    except (OSError, ValueError) as error:
        raise UserError(f"argument checkpoint: {error}") from error

    async def handler(connection: ServerConnection) -> None:
        await talk(rows, connection)

    async with serve(handler, args.host, args.port, compression=None, max_size=MOST_BYTES) as server:
        logging.info("listening on %s:%d", args.host, server.sockets[0].getsockname()[1])
        reading = asyncio.create_task(rows.run())
        try:
            await reading  # which ends only by an error
        finally:
            reading.cancel()


def integer(least: int, most: Optional[int] = None) -> Callable[[str], int]:
    """An argument's type: an integer from ``least`` to ``most``."""

    def read(text: str) -> int:
        with contextlib.suppress(ValueError):
            number = int(text)
            if least <= number and (most is None or number <= most):
                return number
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise argparse.ArgumentTypeError(f"expected an integer {limits}, got {text!r}")

    return read


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", help="a trained model, or its save-dir")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=integer(0, 65535), default=8765, help="port to listen on (default: %(default)s)")
    capacity_help = "most clients at a time, up to a million (default: %(default)s)"
    parser.add_argument("--capacity", type=integer(1, 10**6), default=1000, help=capacity_help)
    parser.add_argument("--max-skip", type=integer(0), help="most steps to skip after an update; 0 wants every sample")
    # Importing fairseq has set up logging already; websockets would log every message, which takes most of the time
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", force=True)
    logging.getLogger("websockets").setLevel(logging.WARNING)
    torch.set_num_threads(1)
    try:
        asyncio.run(main(parser.parse_args()))
    except UserError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"arguments --host, --port: {error}")  # such as a port that is in use
    except KeyboardInterrupt:
        pass
