"""Sweeps of 1,000 points and of 200: processes, Dask, a worker that is killed, the cache; the same files byte for byte.

--local has the processes alone, of all 1,000 points, --warm the sweep and three more from its cache; without them a fifth of the points is swept.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from time import perf_counter, sleep

from common import EXAMPLES, Options, Section, machine, main, markdown

from testbench.dask import cluster, there

KERNEL = ("explore", str(EXAMPLES / "logistic.py"), "--rows", "581102", "--dim", "d=54")
TARGETS = "small,ulx3s-85f,vu9p,u55c,kcu105"
FORMATS = "float32,bfloat16"
WALKERS = "walkers=1..4,8"


class Sweeps:
    """Runs of one sweep in a folder, each with a cache and files of its own."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.folder, self.threads = folder, threads

    def begin(
        self, name: str, *more: str, span: tuple[int, int] | None = None
    ) -> subprocess.Popen[bytes]:
        first, last = span or (1, self.threads)
        words = [*KERNEL, "--target", TARGETS, "--format", FORMATS, "--sweep", WALKERS]
        words += ["--sweep", f"threads={first}..{last}", "--out", f"{name}-files", "-q", *more]
        # modules are compiled once, as where Penstock is installed
        own = {"PENSTOCK_CACHE": name, "PYTHONPYCACHEPREFIX": "bytecode"}
        variables = os.environ | {key: str(self.folder / at) for key, at in own.items()}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-m", "penstock", *words]
        return subprocess.Popen(command, cwd=self.folder, env=variables)

    def timed(self, *begun: subprocess.Popen[bytes], since: float) -> float:
        for process in begun:
            if process.wait():
                raise RuntimeError(f"a sweep ended with {process.returncode}")
        return perf_counter() - since

    def files(self, name: str) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in (self.folder / f"{name}-files").iterdir()}

    def run(self, name: str, *more: str) -> float:
        return self.timed(self.begin(name, *more), since=perf_counter())


def _killed(sweeps: Sweeps, workers: Sequence[subprocess.Popen[bytes]], points: int) -> None:
    """Kill a worker when a third of the points are done."""
    cache = sweeps.folder / "killed"
    while len(list(cache.glob("point-*"))) < points // 3:
        sleep(0.05)
    workers[0].kill()


def _local(sweeps: Sweeps, turns: str) -> list[tuple[str, float, str]]:
    """Return what processes take; of several turns the best counts."""
    spans = ((1, sweeps.threads // 2), (sweeps.threads // 2 + 1, sweeps.threads))
    halves = local = float("inf")
    for turn in turns:
        since = perf_counter()
        one, two = (sweeps.begin(f"{turn}{s[0]}", "--jobs", "1", span=s) for s in spans)
        halves = min(halves, sweeps.timed(one, two, since=since))
        local = min(local, sweeps.run(turn, "--jobs", "2"))
    return [
        ("two processes with half of them each, side by side", halves, ""),
        ("one sweep, two processes", local, f"{local / halves:.3f} × of that"),
        _again(sweeps, "a", local),
    ]


def _again(sweeps: Sweeps, name: str, cold: float) -> tuple[str, float, str]:
    again = min(sweeps.run(name, "--jobs", "2") for _ in range(3))
    return "again, all in the cache", again, f"{again / cold:.1%} of that"


def _warm(sweeps: Sweeps) -> list[tuple[str, float, str]]:
    cold = sweeps.run("a", "--jobs", "2")
    return [("one sweep, two processes", cold, ""), _again(sweeps, "a", cold)]


def _shown(sweeps: Sweeps, rows: Sequence[tuple[str, float, str]]) -> str:
    cells = [(what, f"{seconds:.1f}", more) for what, seconds, more in rows]
    return markdown(f"{5 * 2 * 5 * sweeps.threads:,} points | seconds | ", cells)


def make(options: Options) -> str:
    threads = 2 if options.quick else 4
    points = 5 * 2 * 5 * threads
    with tempfile.TemporaryDirectory() as name:
        sweeps = Sweeps(Path(name), threads)
        rows = _local(sweeps, "ab")
        same = sweeps.files("a")
        equal = [sweeps.files("b") == same]
        with cluster(sweeps.folder) as (address, begin):
            workers = [begin(), begin()]
            there(address, 2)
            rows.append(("two workers of Dask", sweeps.run("dask", "--dask", address), ""))
            equal.append(sweeps.files("dask") == same)
            killer = Thread(target=_killed, args=(sweeps, workers, points), daemon=True)
            killer.start()
            seconds = sweeps.run("killed", "--dask", address)
            killer.join(1)
            gone = workers[0].poll() is not None
            rows.append((f"the same, one killed by SIGKILL in between: {gone}", seconds, ""))
            equal.append(sweeps.files("killed") == same)
        rows.append(("best 3 simulated: golden = RTL = model", _confirmed(sweeps), ""))
    verdict = "yes" if all(equal) else f"NO: {equal}"
    return f"{machine()}\n\n{_shown(sweeps, rows)}\n\nFiles equal byte for byte: {verdict}."


def _confirmed(sweeps: Sweeps) -> float:
    """Simulate the three best points of a sweep for a smaller part, which ends with 0 if all agree."""
    words = [*KERNEL, "--target", "small", "--sweep", "threads=1..4", "--confirm", "3", "-q"]
    since = perf_counter()
    command = [sys.executable, "-m", "penstock", *words, "--confirm-rows", "200"]
    return sweeps.timed(subprocess.Popen(command, cwd=sweeps.folder), since=since)


SECTIONS = [Section("explore", True, make)]

if __name__ == "__main__" and sys.argv[1:] in (["--local"], ["--warm"]):
    with tempfile.TemporaryDirectory() as name:
        whole = Sweeps(Path(name), 20)
        print(_shown(whole, _local(whole, "a") if sys.argv[1] == "--local" else _warm(whole)))
elif __name__ == "__main__":
    main(SECTIONS, __doc__)
