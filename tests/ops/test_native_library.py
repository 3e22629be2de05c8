"""What the ``native`` engine refuses; and its library: missing, broken, incompatible, with a chosen instruction set."""

import logging
import sys

import pytest
import torch

from skiprnn_plugin.modules import SkipGRU
from skiprnn_plugin.ops import engines
from skiprnn_plugin.ops.native import engine as native_engine
from skiprnn_plugin.ops.native import library

from ..command_line import ROOT, run
from ..compare import assert_equal
from .native_problems import native
from .problems import Problem

REFUSED = {
    "float64": ({"dtype": torch.float64}, "takes torch.float32 on the CPU, got torch.float64 on .*one of indexed, ref"),
    "bfloat16": ({"dtype": torch.bfloat16}, "takes torch.float32 on the CPU, got torch.bfloat16"),
    "layer norm": ({"layer_norm": True}, "has no layer_norm; expected auto or one of reference"),
}


@native
@pytest.mark.parametrize("changes, message", REFUSED.values(), ids=REFUSED.keys())
def test_what_it_cannot_do_is_an_error(engine, changes, message):
    problem = Problem("gru", **{"dtype": torch.float32, **changes})
    with pytest.raises(ValueError, match=f"^engine: 'native' {message}"):
        problem.run(engine)


@native
def test_autocast_is_an_error(engine):
    message = "^engine: 'native' takes torch.float32 on the CPU, got torch.bfloat16"
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ValueError, match=message):
        Problem("gru", dtype=torch.float32).run(engine)


@native
def test_streams_know_no_autocast(engine):
    rnn, x = SkipGRU(3, 5, engine=engine).eval(), torch.randn(2, 6, 3)
    expected = rnn.stream(2).feed(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert_equal(rnn.stream(2).feed(x), expected)
        rnn.quantized().stream(2)


@native
def test_another_device_is_refused(engine):
    """Asked of the table, as on the meta device, the only other one everywhere, every engine just gives shapes."""
    reason = engines.ENGINES[engine].refuse(torch.empty(2, 3, 4, device="meta"), "gru")
    assert reason == "takes torch.float32 on the CPU, got torch.float32 on meta"


@pytest.fixture
def find_again(monkeypatch):
    """Sets an environment variable; the library is searched for again."""
    monkeypatch.setattr(library, "_found", None)
    monkeypatch.setattr(engines, "_announced", set())
    return monkeypatch.setenv


@pytest.mark.parametrize("content", [None, b"", b"no library"], ids=["missing", "empty", "broken"])
def test_without_the_library_auto_says_so_once_and_native_is_an_error(tmp_path, find_again, caplog, content):
    path = tmp_path / "libskiprnn.so"
    if content is not None:
        path.write_bytes(content)
    find_again("SKIPRNN_NATIVE_LIBRARY", str(path))
    problem = Problem("gru", dtype=torch.float32)
    with caplog.at_level(logging.INFO, logger="skiprnn_plugin.ops.engines"):
        for _ in range(2):
            assert_equal(problem.run("auto"), problem.run("indexed"))
    (message,) = caplog.messages
    assert message.startswith(f"engine auto: chose indexed; native cannot use {path} (SKIPRNN_NATIVE_LIBRARY)")
    with pytest.raises(
        ValueError, match=r"^engine: 'native' cannot use .*; expected auto or one of indexed, reference"
    ):
        problem.run("native")


def test_a_library_that_was_not_built_is_named_with_what_to_do(find_again, monkeypatch, caplog):
    monkeypatch.delenv("SKIPRNN_NATIVE_LIBRARY", raising=False)
    monkeypatch.setattr(library, "FILES", ())
    problem = Problem("gru", dtype=torch.float32)
    with caplog.at_level(logging.INFO, logger="skiprnn_plugin.ops.engines"):
        problem.run("auto")
    (message,) = caplog.messages
    assert message.startswith(f"engine auto: chose indexed; native {library.NOT_BUILT}; triton takes ")
    with pytest.raises(ValueError, match="^engine: 'native' needs its library, which is not built: install .*compiler"):
        problem.run("native")


@native
def test_a_library_with_another_interface_is_not_used(engine, find_again, monkeypatch):
    monkeypatch.setattr(library, "ABI", 999)
    with pytest.raises(ValueError, match=r"^engine: 'native' cannot use .*: interface \d+, expected 999; "):
        Problem("gru", dtype=torch.float32).run(engine)


@native
@pytest.mark.parametrize("engine_name", ["native", "auto"])
def test_an_unknown_instruction_set_in_the_environment_is_an_error(engine, engine_name, find_again):
    find_again("SKIPRNN_LEVEL", "mmx")
    with pytest.raises(ValueError, match="^SKIPRNN_LEVEL: unknown instruction set 'mmx'; expected one of .*baseline"):
        Problem("gru", dtype=torch.float32).run(engine_name)


@pytest.mark.thorough
@native
def test_the_environment_names_the_instruction_set(engine):
    code = """
import sys, torch, skiprnn_plugin.ops
from skiprnn_plugin.ops.native import library
assert library._found is None and "torch._dynamo" not in sys.modules
print(library.level())
"""
    for name in library.levels():
        process = run(sys.executable, "-c", code, cwd=ROOT, SKIPRNN_LEVEL=name)
        assert process.stdout.strip() == name, process.stderr


@native
def test_the_library_says_when_memory_runs_out(engine, monkeypatch):
    for fault, text in native_engine.FAULTS.items():
        with pytest.raises(RuntimeError, match=f"^engine 'native': {text}"):
            native_engine._check(fault)
    assert native_engine._check(0) is None
