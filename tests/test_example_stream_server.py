"""The example of a server whose clients send only the samples that a trained model wants."""

import asyncio
import importlib.util
import json
import socket
import subprocess
import sys
from argparse import Namespace

import numpy as np
import pytest

from skiprnn_plugin.hub import from_pretrained

from .command_line import ROOT
from .forked import run_forked
from .frozen.make import FOLDER, arrays

pytest.importorskip("websockets", reason="websockets is not installed")
EXAMPLE = ROOT / "user_dir_examples/stream_server"


def load(name):
    spec = importlib.util.spec_from_file_location(f"stream_server_{name}", EXAMPLE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def serve(test, capacity=5, max_skip=None):
    """Run ``test(connect, rows)`` beside a server of a frozen model with two features."""
    server = load("server")
    from websockets.asyncio.client import connect

    async def main():
        rows = server.Rows(from_pretrained(FOLDER / "skip_gru.pt"), capacity, max_skip)

        async def handler(connection):
            await server.talk(rows, connection)

        reading = asyncio.create_task(rows.run())
        try:
            async with server.serve(handler, "127.0.0.1", 0, max_size=server.MOST_BYTES) as listening:
                address = "ws://127.0.0.1:{1}".format(*listening.sockets[0].getsockname())
                return await asyncio.wait_for(test(lambda: connect(address), rows), 60)
        finally:
            reading.cancel()  # after the server, which waits for the answers to its clients

    return asyncio.run(main())


async def ask(connection, message=None):
    if message is not None:
        await connection.send(message if isinstance(message, (str, bytes)) else json.dumps(message))
    return json.loads(await connection.recv())


async def sense(connect, array):
    """A client with a sequence [T, D]: which samples it has sent, and the last prediction."""
    sent, prediction = [], None
    async with connect() as connection:
        answer = await ask(connection)
        while answer["want"] is not None and answer["want"] < len(array):
            sent.append(answer["want"])
            answer = await ask(connection, {"index": sent[-1], "sample": array[sent[-1]].tolist()})
            prediction = answer["prediction"]
    return sent, prediction


BAD = {
    "not JSON": ("{", "expected {"),
    "other JSON": ([1], "expected {"),
    "bytes": (b"\xff\x00", "expected {"),
    "text": ({"index": 0, "sample": ["a", 1]}, "expected {"),
    "digits": ({"index": 0, "sample": [10**400, 1]}, "expected {"),
    "numbers in texts": ({"index": 0, "sample": ["1.5", "2"]}, "expected {"),
    "no list": ({"index": 0, "sample": 1}, "expected {"),
    "width": ({"index": 0, "sample": [1, 2, 3]}, "sample: expected 2 numbers, got shape [3]"),
    "nan": ('{"index": 0, "sample": [NaN, 1]}', "sample: expected finite numbers"),
    "large": ({"index": 0, "sample": [1e60, 1]}, "sample: expected finite numbers in the range of float32"),
    "early": ({"index": 3, "sample": [1, 1]}, "index: expected 0, got 3"),
    "no index": ({"index": None, "sample": [1, 1]}, "index: expected 0, got None"),
    "fraction": ({"index": 0.0, "sample": [1, 1]}, "index: expected 0, got 0.0"),
    "false": ({"index": False, "sample": [1, 1]}, "index: expected 0, got False"),
    "true": ({"index": 0, "sample": [True, 1]}, "expected {"),
}


def test_bad_clients_disturb_nobody():
    hub = from_pretrained(FOLDER / "skip_gru.pt")
    inputs = [array for array in arrays("skip_gru") if len(array)]

    async def test(connect, rows):
        async def bad():
            async with connect() as connection:
                assert await ask(connection) == {"want": 0}
                for message, error in BAD.values():
                    answer = await ask(connection, message)
                    assert answer["error"].startswith(error) and answer["want"] == 0
                return await ask(connection, {"index": 0, "sample": [0.5, 1]})

        async def gone():
            async with connect() as connection:
                await ask(connection)
                await connection.send(json.dumps({"index": 0, "sample": [0.5, 1]}))

        clients = [*(sense(connect, array) for array in inputs[:3]), bad(), gone()]
        results = await asyncio.gather(*clients)
        again = await sense(connect, inputs[3])  # in a row that somebody has left
        assert rows.samples > rows.batches
        return [*results[:3], again], results[3]

    results, answer = serve(test)
    expected = hub.predict(inputs)
    for (sent, prediction), values, used in zip(results, expected, hub.used_samples(inputs)):
        assert sent == used.nonzero()[0].tolist()
        np.testing.assert_allclose(prediction, values, atol=2e-6)
    np.testing.assert_allclose(answer["prediction"], hub.predict([np.array([[0.5, 1]])])[0], atol=2e-6)


def test_a_full_server_says_so_and_places_become_free():
    async def test(connect, rows):
        async with connect() as one:
            assert await ask(one) == {"want": 0}
            async with connect() as two:
                assert await ask(two) == {"error": "all 1 places are taken"}
        while not rows.free:
            await asyncio.sleep(0.01)
        async with connect() as three:
            return await ask(three)

    assert serve(test, capacity=1) == {"want": 0}


@pytest.mark.parametrize("max_skip", [None, 0])
def test_load(max_skip):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = Namespace(checkpoint=FOLDER / "skip_gru.pt", host="127.0.0.1", port=port, capacity=5, max_skip=max_skip)
    clients = Namespace(address=f"ws://127.0.0.1:{port}", width=2, clients=5, steps=40)

    async def test():
        server = asyncio.create_task(load("server").main(options))
        for _ in range(200):
            try:
                return await load("load").main(clients)
            except OSError:  # the server is not there yet
                await asyncio.sleep(0.05)
            finally:
                if server.done():
                    server.result()
        raise TimeoutError

    text = asyncio.run(test())
    assert text.startswith("5 clients, 200 steps, ") and ("200 steps, 100.0% of them sent" in text) == (max_skip == 0)


def test_clients_that_fail_do_not_stop_the_others():
    sensors = load("load")

    async def test(connect, rows):
        async with connect() as one:
            await ask(one)
            address = "ws://{}:{}".format(*one.remote_address)
            text = await sensors.main(Namespace(address=address, width=2, clients=5, steps=40))
            with pytest.raises(sensors.Refused, match=r"^sample: expected 2 numbers, got shape \[3\]$"):
                await sensors.main(Namespace(address=address, width=3, clients=2, steps=40))
        return text

    text = serve(test, capacity=3)
    assert text.startswith("2 clients, 80 steps, ")
    assert text.endswith("; 3 clients failed, the first by: all 3 places are taken")


def in_one_line(process):
    assert process.returncode == 2 and "Traceback" not in process.stderr
    return process.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "words, message",
    [
        ("--port 99999", "argument --port: expected an integer from 0 to 65535, got '99999'"),
        ("--capacity 0", "argument --capacity: expected an integer from 1 to 1000000, got '0'"),
        ("--max-skip -1", "argument --max-skip: expected an integer of at least 0, got '-1'"),
        ("--max-skip 1.5", "argument --max-skip: expected an integer of at least 0, got '1.5'"),
    ],
)
def test_wrong_options_of_the_server(words, message):
    process = run_forked(EXAMPLE / "server.py", FOLDER / "skip_gru.pt", *words.split())
    assert in_one_line(process) == f"server.py: error: {message}"


@pytest.mark.parametrize(
    "model, message",
    [
        ("missing.pt", "missing.pt: no such file or folder"),
        ("zoo:imdb", "task imdb_sentiment: expected one that reads arrays step by step for a stream; it encodes a "),
    ],
)
def test_models_that_can_not_be_served(model, message):
    process = run_forked(EXAMPLE / "server.py", model, "--port", 0)
    assert in_one_line(process).startswith(f"server.py: error: argument checkpoint: {message}")


@pytest.mark.parametrize(
    "words, message", [("--clients 0", "--clients: expected an integer of at least 1, got '0'"), ("", "")]
)
def test_wrong_options_of_the_clients(words, message):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"ws://127.0.0.1:{probe.getsockname()[1]}"  # where nobody listens
        words = ["--width", "2", "--address", address, *words.split()]
        process = run_forked(EXAMPLE / "load.py", *words)
    expected = message or f"--address: {address}: [Errno 111] Connect call failed"
    assert in_one_line(process).startswith(f"load.py: error: argument {expected}")


def test_a_port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, EXAMPLE / "server.py", FOLDER / "skip_gru.pt", "--port", str(port)]
        process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 2 and "Traceback" not in process.stderr
    assert f"error while attempting to bind on address ('127.0.0.1', {port})" in process.stderr.splitlines()[-1]


def test_a_client_that_a_full_server_cannot_tell_is_no_failure():
    from websockets.exceptions import ConnectionClosedOK

    server = load("server")

    class Gone:
        async def send(self, text):
            raise ConnectionClosedOK(None, None)

    rows = server.Rows(from_pretrained(FOLDER / "skip_gru.pt"), 1)
    rows.take()
    asyncio.run(server.talk(rows, Gone()))
    assert rows.free == []


def test_samples_keep_their_precision():
    """As a float32, a Unix time is rounded to two minutes."""
    rows = load("server").Rows(from_pretrained(FOLDER / "skip_gru.pt"), 1)
    assert rows.parse(rows.take(), '{"index": 0, "sample": [1700000001, 1]}').tolist() == [1700000001, 1]
