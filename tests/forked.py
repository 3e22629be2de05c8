"""Runs Python in processes forked from one that has imported fairseq: what a new process does, seconds sooner.

Run as a script, this file is the process that is forked.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import types
from pathlib import Path

SCRIPTS = Path(sys.executable).parent  # the console scripts of the packages that are installed
# An optimizer imports torch._dynamo. What fairseq's commands log goes to standard error, as in other programs: not
# fairseq_cli, which would send it to standard output, is imported first.
IMPORTED = ("fairseq.trainer", "fairseq.model_parallel.megatron_trainer", "torch._dynamo")
SECONDS = 300  # after which a process that has not ended is killed, and with it the one that it was forked from


def run_forked(*arguments, cwd=None, **environment):
    """As ``run(sys.executable, *arguments)``; standard input is empty.

    For tests of what a process does once it runs: fairseq and torch have been imported, the plugin has not. A test of
    imports, or of how Python starts, needs :func:`.command_line.run`.
    """
    arguments = [str(argument) for argument in arguments]
    environment = {name: str(value) for name, value in {**os.environ, **environment}.items()}
    server = _start_server()
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("stdout", "stderr")]
        for file in files:
            file.touch()
        request = {"arguments": arguments, "cwd": str(cwd or os.getcwd()), "environment": environment, "output": folder}
        timer = threading.Timer(SECONDS, os.killpg, (server.pid, signal.SIGKILL))
        timer.start()
        try:
            print(json.dumps(request), file=server.stdin, flush=True)
            answer = server.stdout.readline()
        finally:
            timer.cancel()
        output = [file.read_text() for file in files]
    if not answer:
        _start_server.cache_clear()
        raise TimeoutError(f"{arguments}: the process, or the one to fork it from, was killed\n{''.join(output)}")
    return subprocess.CompletedProcess([sys.executable, *arguments], int(answer), *output)


@functools.cache
def _start_server():
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    return subprocess.Popen(
        [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def _serve():
    """Forks for each request; returns it in the new process."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # fairseq may print while it is imported
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # otherwise collecting garbage would copy all that has been imported
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return json.loads(line)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
    sys.exit()


def _become(arguments, cwd, environment, output):
    """Makes this process one that Python has just started; returns what runs its program."""
    for descriptor, name in enumerate((os.devnull, f"{output}/stdout", f"{output}/stderr")):
        os.dup2(os.open(name, os.O_RDWR | os.O_APPEND), descriptor)
    sys.stdin = open(0, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    random.seed()
    program, *rest = arguments
    if program in ("-c", "-m"):
        what, *rest = rest
        first, sys.argv = "" if program == "-c" else cwd, [program, *rest]
    else:
        first, sys.argv = str(Path(program).parent), arguments
    sys.path[:] = [first, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *sys.path]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if program == "-c":
        return functools.partial(exec, compile(what, "<string>", "exec"), vars(main))
    if program == "-m":
        return functools.partial(runpy.run_module, what, run_name="__main__", alter_sys=True)
    return functools.partial(runpy.run_path, program, run_name="__main__")


def _end(status):
    """Ends this process as Python does, but leaves it to the system to free the memory, which takes Python a second."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _call(program):
    """Calls what a process runs; returns its exit status."""
    try:
        program()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


if __name__ == "__main__":
    del sys.path[0]  # this file's folder
    request = _serve()
    _end(_call(_become(**request)))
