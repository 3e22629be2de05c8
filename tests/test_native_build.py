"""Building and packaging the native engine's library, as setup.py does it."""

import platform
import re
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from .command_line import PLUGIN, run

NATIVE = "skiprnn_plugin/ops/native"
WITHOUT = "The engine auto now takes indexed, which is slower"
X86 = platform.machine() == "x86_64"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the native engine does not support Windows")
needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="no C++ compiler")

FAKE_COMPILER = """#!/bin/sh
echo "$@" >>"$LOG"
case "$* " in *"$REFUSED"*) exit 1 ;; esac
while [ "$1" != -o ]; do shift; done
echo built >"$2"
"""


def libraries(folder):
    return sorted(path.name for path in (folder / NATIVE).glob("libskiprnn.*"))


@pytest.mark.thorough
@needs_compiler
def test_source_distribution_gives_a_wheel_with_the_library_for_any_python(distributions):
    source, wheel = distributions
    with tarfile.open(source) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    sources = [path.name for path in (PLUGIN / "ops/native").iterdir() if path.suffix in (".cpp", ".h")]
    assert {f"{NATIVE}/{name}" for name in sources} <= set(names)
    assert not [name for name in names if "libskiprnn" in name]
    assert re.fullmatch(r"skiprnn_plugin-[\d.]+-py3-none-(linux|macosx)_\w+\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    assert len([name for name in names if name.startswith(f"{NATIVE}/libskiprnn.")]) == 1
    assert "skiprnn_plugin/py.typed" in names and not [name for name in names if name.endswith((".cpp", ".o"))]


@pytest.mark.thorough
@needs_compiler
def test_library_of_the_wheel_loads_and_is_that_of_the_header(distributions, tmp_path):
    _, wheel = distributions
    zipfile.ZipFile(wheel).extractall(tmp_path)
    (name,) = libraries(tmp_path)
    code = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.skiprnn_levels.restype = ctypes.c_char_p
print(library.skiprnn_abi(), library.skiprnn_levels().decode())
"""
    process = run(sys.executable, "-I", "-c", code, tmp_path / NATIVE / name)
    abi, levels = process.stdout.split()
    assert abi == re.search(r"#define SKIPRNN_ABI (\d+)", (PLUGIN / "ops/native/skiprnn.h").read_text())[1]
    assert levels.split(",")[-1] == "baseline"
    assert set(levels.split(",")) <= {"avx512vnni", "avx512", "avx2", "baseline"}
    if not X86:
        assert levels == "baseline"


@pytest.mark.parametrize(
    "environment",
    [
        *(pytest.param({"CXX": name}, marks=pytest.mark.thorough) for name in ("false", "no-such-compiler")),
        {"CXX": "", "PATH": ""},
    ],
    ids=str,
)
def test_without_a_compiler_the_wheel_is_made_without_the_library(copied_tree, tmp_path, environment):
    command = [sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation", "-w", tmp_path, "."]
    process = run(*command, cwd=copied_tree(), **environment)
    assert process.returncode == 0, process.stderr
    assert (process.stdout + process.stderr).count(WITHOUT) == 1
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if "libskiprnn" in name]


@pytest.fixture
def compile_in_place(copied_tree, tmp_path):
    """A function that does what ``pip install -e .`` does, with a compiler that only writes down how it was called. It
    takes a word at which the compiler fails, setuptools' mode of installation and the environment, and returns the
    folder and the calls."""
    folder, compiler, log = copied_tree(), tmp_path / "c++", tmp_path / "log"
    compiler.write_text(FAKE_COMPILER)
    compiler.chmod(0o755)
    for name in ("dispatch.cpp", "kernels.cpp"):
        (folder / NATIVE / name).touch()
    code = """
import sys
from setuptools.build_meta import build_editable
build_editable(sys.argv[1], {"editable_mode": sys.argv[2]})
"""

    def go(refused=" no flag ", mode="lenient", **environment):
        log.write_text("")
        unset = dict.fromkeys(("CPPFLAGS", "CXXFLAGS", "LDFLAGS"), "")
        environment = {**unset, "LOG": str(log), "REFUSED": refused, "CXX": str(compiler), **environment}
        process = run(sys.executable, "-c", code, tmp_path, mode, cwd=folder, **environment)
        assert process.returncode == 0, process.stderr
        assert process.stderr.count(WITHOUT) == (not libraries(folder))
        return folder, [line.split() for line in log.read_text().splitlines()]

    return go


def test_sources_are_compiled_for_each_instruction_set(compile_in_place):
    folder, calls = compile_in_place()
    name = "libskiprnn.dylib" if sys.platform == "darwin" else "libskiprnn.so"
    assert libraries(folder) == [name]
    flags = {Path(call[call.index("-o") + 1]).name: call for call in calls}
    # The linker keeps the first copy of an inline function, which must run on any processor.
    levels = ["baseline", "avx2", "avx512", "avx512vnni"] if X86 else ["baseline"]
    linked = [Path(word).name for word in flags.pop(name) if word.endswith(".o")]
    assert linked == ["dispatch.o", *(f"kernels-{level}.o" for level in levels)] and set(linked) == set(flags)
    for name, given in flags.items():
        instructions = {flag for flag in given if flag.startswith("-m")}
        assert bool(instructions) == name.startswith("kernels-avx")
        assert not instructions & {"-march=native", "-mtune=native"} and "-ffast-math" not in given
        assert "-ffp-contract=off" in given and ("-DSKIPRNN_X86_LEVELS" in given) == (X86 and name == "dispatch.o")
        assert ("-mavx512f" in given) == (name in ("kernels-avx512.o", "kernels-avx512vnni.o"))
        assert ("-mavx512vnni" in given) == (name == "kernels-avx512vnni.o")
    for level in levels:
        given = flags[f"kernels-{level}.o"]
        assert f"-DSKIPRNN_LEVEL={level}" in given and f"{NATIVE}/kernels.cpp" in given


def test_flags_from_the_environment(compile_in_place):
    _, calls = compile_in_place(CXXFLAGS="-O1 '-DTEXT=two words'", CPPFLAGS="-DP", LDFLAGS="-Wl,-z,now")
    for call in calls:
        assert call.index("-O3") < call.index("-O1") < call.index("-ffp-contract=off") and "-DP" in call
        assert "-DTEXT=two words" in " ".join(call) and ("-Wl,-z,now" in call) == ("-shared" in call)


@pytest.mark.skipif(sys.platform != "linux", reason="only there libstdc++ is linked statically")
def test_links_without_a_static_libstdcxx(compile_in_place):
    folder, calls = compile_in_place(refused="-static-libstdc++")
    assert libraries(folder) == ["libskiprnn.so"]
    assert ["-static-libstdc++" in call for call in calls if "-shared" in call] == [True, False]


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["lenient", "strict"])
def test_a_build_that_fails_leaves_no_library_of_older_sources(compile_in_place, mode):
    folder, _ = compile_in_place(mode=mode)
    assert libraries(folder)
    folder, _ = compile_in_place(mode=mode, refused="dispatch.cpp")
    assert not libraries(folder)
