"""The ``native`` engine with the threads that it starts, and called by several threads of Python."""

import os
import signal
import sys
import threading
import time

import pytest
import torch

from skiprnn_plugin.modules import SkipGRU

from ..command_line import ROOT, run
from ..compare import assert_equal, assert_gradients_close
from .native_problems import bitwise_parts, native
from .problems import Problem, every_cell


@native
@every_cell
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("inputs", [2, 200])
def test_two_runs_are_bitwise_equal_with_any_number_of_threads(cell, engine, threads, inputs):
    runs = []
    for _ in range(2):
        problem = Problem(cell, 40, 60, inputs, 64, 2, dtype=torch.float32, scale=0.1)
        results = problem.run(engine)
        runs.append((bitwise_parts(results), problem.gradients(results)))
    assert_equal(*runs)


@native
@pytest.mark.parametrize("later", [True, False], ids=["set", "unset"])
def test_threads_flush_denormal_numbers_as_the_calling_thread_does(engine, later):
    rnn, x = SkipGRU(2, 64, engine=engine), torch.full((256, 60, 2), 1e-40)
    with torch.no_grad():
        for name, parameter in rnn.named_parameters():
            if "bias_" in name or "initial" in name:
                parameter.zero_()
    before, outputs = torch.get_num_threads(), []
    try:
        torch.set_flush_denormal(not later)
        torch.set_num_threads(2)
        rnn(x)  # starts the threads
        torch.set_flush_denormal(later)
        for count in (1, 2):
            torch.set_num_threads(count)
            outputs.append(rnn(x)[0].detach().clone().view(torch.int32))
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
    assert torch.equal(*outputs)
    assert bool(outputs[0].any()) != later


@native
@every_cell
@pytest.mark.parametrize("inputs", [2, 200])
def test_one_thread_and_two_agree(cell, engine, inputs):
    runs = []
    before = torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        problem = Problem(cell, 40, 60, inputs, 64, 2, dtype=torch.float32, scale=0.1)
        results = problem.run(engine)
        runs.append((bitwise_parts(results), problem.gradients(results)))
    torch.set_num_threads(before)
    assert_equal(runs[1][0], runs[0][0])
    assert_gradients_close(runs[1][1], runs[0][1])


@native
@every_cell
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_threads_that_share_products_change_no_bit(cell, engine, batch):
    runs = []
    before = torch.get_num_threads()
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        problem = Problem(cell, batch, 20, 3000, 200, 2, dtype=torch.float32, scale=0.02)
        problem.tensors["update_bias"].detach().fill_(-1.0)
        results = problem.run(engine, lengths=[20, 11, 18][:batch])
        runs.append((bitwise_parts(results), problem.gradients(results)))
    torch.set_num_threads(before)
    assert 0 < runs[0][0][-1].mean() < 1
    for run_of_threads in runs[1:]:
        assert_equal(run_of_threads, runs[0])


def wide_model(engine, seed=0):
    """A model and one sequence whose scan is long enough to be shared by threads."""
    torch.manual_seed(seed)
    return SkipGRU(300, 128, engine=engine), torch.randn(1, 80, 300)


@native
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
def test_many_threads_of_python_may_run_it(engine, threads):
    problems = [wide_model(engine, seed) for seed in range(2)]
    with torch.no_grad():
        expected = [rnn(x) for rnn, x in problems]
    wrong = []

    def work(problem, results):
        rnn, x = problem
        with torch.no_grad():
            for _ in range(50):
                if not torch.equal(rnn(x)[0], results[0]):
                    wrong.append(rnn)

    running = [threading.Thread(target=work, args=pair) for pair in list(zip(problems, expected)) * 2]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong


class Outputs(torch.utils.data.Dataset):
    """A model's outputs, computed by two threads in the process that asks for them."""

    def __init__(self, rnn, x):
        self.rnn, self.x = rnn, x

    def __len__(self):
        return 2

    def __getitem__(self, index):
        torch.set_num_threads(2)
        with torch.no_grad():
            return self.rnn(self.x)[0]


def made_by_fork(outputs, folder):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            torch.save(outputs[0], folder / "output.pt")
            os._exit(len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 2)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2  # the thread that forks, and a new one
    return torch.load(folder / "output.pt")


def made_by_data_loader(outputs, folder):
    loader = torch.utils.data.DataLoader(outputs, None, num_workers=2, multiprocessing_context="fork", timeout=60)
    return torch.stack(list(loader)).unique(dim=0).squeeze(0)


@native
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("threads", [2], indirect=True)
@pytest.mark.parametrize("made", [made_by_fork, made_by_data_loader])
def test_a_fork_has_threads_of_its_own(engine, threads, made, tmp_path):
    outputs = Outputs(*wide_model(engine))
    expected = outputs[0]
    assert_equal(made(outputs, tmp_path), expected)
    assert_equal(outputs[0], expected)


@native
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_in_the_middle_of_another_threads_call(engine):
    """A lock that the other thread held stays locked in the child."""
    torch.manual_seed(0)
    rnn, x = SkipGRU(2, 110, engine=engine), torch.randn(1, 50, 2)
    with torch.no_grad():
        expected = rnn(x)[0]
    done = threading.Event()

    def work():
        with torch.no_grad():
            while not done.is_set():
                rnn(x)

    def fork():
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # ends it if it hangs
            try:
                with torch.no_grad():
                    os._exit(0 if torch.equal(rnn(x)[0], expected) else 1)
            finally:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert all(fork() == 0 for _ in range(12))
    finally:
        done.set()
        thread.join()


@native
@pytest.mark.parametrize("threads", [2], indirect=True)
def test_threads_without_work_sleep(engine, threads):
    rnn, x = wide_model(engine)
    with torch.no_grad():
        rnn(x)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


@native
def test_a_process_ends_though_its_threads_wait(engine):
    code = """
import torch
from skiprnn_plugin.modules import SkipGRU
torch.set_num_threads(2)
output = SkipGRU(300, 128, engine="native")(torch.randn(1, 80, 300))[0]
output.sum().backward()
print(*output.shape)
"""
    process = run(sys.executable, "-c", code, cwd=ROOT)
    assert (process.returncode, process.stdout, process.stderr) == (0, "1 80 128\n", "")


@native
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_get_no_signals_but_those_of_their_faults(engine):
    code = """
import os, signal, time, torch
from skiprnn_plugin.modules import SkipGRU
torch.set_num_threads(2)
rnn, x = SkipGRU(300, 128, engine="native"), torch.randn(1, 80, 300)
before = set(os.listdir("/proc/self/task"))
rnn(x)
(thread,) = set(os.listdir("/proc/self/task")) - before
names = ("SIGINT", "SIGTERM", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")
found, end = None, time.monotonic() + 10
while found != ["SIGINT", "SIGTERM"] and time.monotonic() < end:  # a thread begins with all of them blocked
    status = dict(line.split(":", 1) for line in open(f"/proc/self/task/{thread}/status"))
    found = [name for name in names if int(status["SigBlk"], 16) >> (getattr(signal, name) - 1) & 1]
print(*found)
"""
    process = run(sys.executable, "-c", code, cwd=ROOT)
    assert (process.returncode, process.stdout, process.stderr) == (0, "SIGINT SIGTERM\n", "")


@native
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_library_stays_for_its_threads_when_it_is_closed(engine):
    code = """
import _ctypes, os
from skiprnn_plugin.ops.native import library
opened = library.load()
_ctypes.dlclose(opened._handle)
print(os.path.realpath(opened._name) in open("/proc/self/maps").read())
"""
    process = run(sys.executable, "-c", code, cwd=ROOT)
    assert (process.returncode, process.stdout, process.stderr) == (0, "True\n", "")
