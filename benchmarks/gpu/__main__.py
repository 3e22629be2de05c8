"""``python -m benchmarks.gpu``: compile, check, time and train on a CUDA device, within a limit of time."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from . import policy
from .log import Log, describe
from .settings import Settings, parse
from .worker import Claims, most_seconds

ROOT = Path(__file__).parent.parent.parent
# The time of each phase, as shares of the limit. A phase that ends early leaves its time to the later ones.
SHARES = {"compile": 45, "correctness": 22, "kernels": 33, "times": 80, "graphs": 6, "epoch": 50, "policy": 2}
GRACE = 7.0  # seconds after a phase's end until its workers are killed; they end themselves before
RESTARTS = 6  # of workers that died, in a phase
ALARM = -14  # exit status of a process that SIGALRM ended


class Program:
    """One call of the command.

    Attributes:
        ends: when each phase has to end, in seconds since 1970.
        faults: what went wrong.
    """

    def __init__(self, settings: Settings, folder: Path):
        self.settings, self.folder = settings, folder
        self.log = Log(settings.output, time.time())
        total, sum_so_far = sum(SHARES[phase] for phase in settings.phases), 0
        limit = max(0.9 * settings.limit, settings.limit - GRACE - 1)  # so that workers which must be killed have ended
        self.ends: Dict[str, float] = {}
        for phase in settings.phases:
            sum_so_far += SHARES[phase]
            self.ends[phase] = self.log.started + limit * sum_so_far / total
        self.faults: List[str] = []
        self.environment = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        self.environment.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # with this, cuBLAS is deterministic
        self.site = folder / "site"  # where wheels are installed
        paths = [str(ROOT), str(self.site), *filter(None, [self.environment.get("PYTHONPATH")])]
        self.environment["PYTHONPATH"] = os.pathsep.join(paths)
        self.waiting: Dict[str, subprocess.Popen] = {}
        self.processes: List[subprocess.Popen] = []

    def run(self) -> int:
        """Run the phases. Returns 1 if anything was wrong, else 0."""
        phases = self.settings.phases
        self.log.write("start", f"phases {' '.join(phases)}, at most {self.settings.limit:.0f} s", **self._options())
        installing = self._in_background(self._install) if "epoch" in phases and self.settings.wheels else None
        compiling = None
        for phase in phases:
            if phase not in ("compile", "policy") and not (phase == "epoch" and installing):
                self.waiting[phase] = self._start(phase)  # imports take seconds
        if "compile" in phases:
            # The processors go on compiling while the device is checked
            until = self.ends["correctness" if "correctness" in phases else "compile"]
            compiling = self._in_background(self._run, "compile", until, self.settings.workers)
            compiling.join(max(0.0, self.ends["compile"] - time.time()))
        for phase in phases:
            if phase in ("compile", "policy"):
                continue
            if phase != "correctness" and compiling:
                compiling.join()
            if phase == "epoch" and installing:
                installing.join()
            self._run(phase, self.ends[phase], 1)
        if compiling:
            compiling.join()
        if "policy" in phases:
            self._suggest_policy()
        self.faults += [f"{record['phase']}: {record['text']}" for record in self.log.read() if record.get("error")]
        text = f"{len(self.faults)} faults" + "".join(f"\n       {fault}" for fault in self.faults)
        self.log.write("end", text, faults=self.faults)
        return int(bool(self.faults))

    def _options(self) -> Dict[str, object]:
        values = self.settings._asdict()
        return {"options": {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}}

    def _in_background(self, function, *arguments) -> threading.Thread:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        thread.start()
        return thread

    def _run(self, phase: str, until: float, workers: int) -> None:
        """Run a phase in some processes; replaces those that die, as long as there is time."""
        claims = Claims(self.folder / phase)
        running = [self._begin(self.waiting.pop(phase, None) or self._start(phase), until) for _ in range(workers)]
        restarts = RESTARTS
        while running:
            time.sleep(0.02)
            for process in list(running):
                status = process.poll()
                if status is None and time.time() > until + GRACE:
                    process.kill()
                    status = process.wait()
                if status is None:
                    continue
                running.remove(process)
                name = claims.unfinished().get(process.pid)
                if name is not None:
                    self._write_death(phase, name, status, until)
                if status not in (0, 1) and restarts and time.time() < until - 1:
                    restarts -= 1
                    running.append(self._begin(self._start(phase), until))

    def _start(self, phase: str) -> subprocess.Popen:
        words = ["--phase", phase, "--claims", self.folder / phase, "--started", self.log.started]
        command = [sys.executable, "-m", f"{__package__}.worker", *map(str, words), *self.settings.arguments()]
        command += ["--describe"] * (not self.processes)  # the first one, which has imported torch anyway
        process = subprocess.Popen(command, env=self.environment, cwd=ROOT, stdin=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def stop(self) -> None:
        """End all processes."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()

    def _begin(self, process: subprocess.Popen, until: float) -> subprocess.Popen:
        try:
            process.stdin.write(f"{until}\n")
            process.stdin.close()
        except BrokenPipeError:  # the process has died; its exit status says so
            pass
        return process

    def _write_death(self, phase: str, name: str, status: int, until: float) -> None:
        if time.time() > until + 3:
            self.log.write(phase, f"{name}: cut off, as the phase's time was over", item=name)
            return
        seconds = most_seconds(phase, self.settings)
        error = f"no result within {seconds:.0f} s" if status == ALARM else f"its process died with {status}"
        self.log.write(phase, f"{name}: {error}", item=name, error=error)

    def _install(self) -> None:
        """Install the wheels to a folder of this call."""
        wheels = [str(path) for path in sorted(self.settings.wheels.glob("*.whl"))]
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile"]
        command += ["--no-cache-dir", "--target", str(self.site), *wheels]
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode:
            lines = process.stderr.strip().splitlines() or ["pip failed"]
            self.log.write("epoch", f"wheels: {lines[-1]}", item="wheels", error=lines[-1])
        else:
            self.log.write("epoch", f"{len(wheels)} wheels installed", item="wheels")
        self.waiting["epoch"] = self._start("epoch")

    def _suggest_policy(self) -> None:
        try:
            policy.suggest(self.log)
        except Exception as error:
            self.log.write("policy", describe(error), error=describe(error))


def main(arguments: Optional[Sequence[str]] = None) -> int:
    settings = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "log.jsonl" if settings.output is None else settings.output.absolute()
        if settings.phases != ["policy"]:  # which only reads what another call has measured
            output.unlink(missing_ok=True)
        program = Program(settings._replace(output=output), Path(folder))
        try:
            return program.run()
        finally:
            program.stop()


if __name__ == "__main__":
    sys.exit(main())
