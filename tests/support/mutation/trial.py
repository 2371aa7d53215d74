"""One mutant, and the tests that execute it: does one fail?

A worker is a process of pytest that has collected the tests once (mutation.plugin). Each trial is a
child of it: the change is planted into the functions that live there. Where it cannot be, because an
import executes it, a worker of its own begins with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import Any

import psutil

from mutation.copies import Copy
from mutation.kinds import Mutant

Tests = list[tuple[str, float]] | None

_BEGINS = 240.0  # seconds in which tests are collected


class Worker:
    """A process that has collected tests, and tries mutants one after the other.

    `tests`: what pytest collects. `planted`: the path of a module and of the text it begins with.
    """

    def __init__(
        self,
        copy: Copy,
        folder: Path,
        tests: Iterable[str],
        planted: tuple[Path, Path] | None = None,
    ) -> None:
        self.name, self.folder, self.copy = folder / "pipe", folder, copy
        folder.mkdir(parents=True, exist_ok=True)
        for end in ("in", "out"):
            (pipe := self.name.with_suffix(f".{end}")).unlink(missing_ok=True)
            os.mkfifo(pipe)
        command = [copy.python, "-m", "pytest", "-m", "not long", "-q", "--tb=no", "-p"]
        command += ["mutation.plugin", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
        command += [f"--basetemp={folder / 'temporary'}", "--continue-on-collection-errors"]
        told = copy.variables(folder / "cache") | {"MUTATION_TRIALS": str(self.name)}
        if planted:
            told["MUTATION_PLANTED"] = os.pathsep.join(map(str, planted))
        (folder / "cache").mkdir(exist_ok=True)
        with (folder / "output").open("w") as output:
            self.process = subprocess.Popen(
                [*map(str, command)],
                cwd=copy.tree,
                env=told,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        # the process opens its ends in this order, and never if it dies: no waiting in open()
        told_by = os.open(self.name.with_suffix(".out"), os.O_RDONLY | os.O_NONBLOCK)
        self.told = os.fdopen(told_by, "rb", buffering=0)
        self.jobs = os.fdopen(os.open(self.name.with_suffix(".in"), os.O_RDWR), "wb", buffering=0)
        self.rest = b""
        self.ready = self._answer(_BEGINS)

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        """Return the next line that the process writes, None when it is dead or too late."""
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            if self.process.poll() is not None or time.monotonic() > end:
                return None
            if select.select([self.told], [], [], 0.5)[0]:
                self.rest += (more := self.told.read(1 << 16) or b"")
                if not more:
                    time.sleep(0.05)
        line, _, self.rest = self.rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def asked(self, job: dict[str, Any]) -> dict[str, Any]:
        """Let a child try, and return how it ended."""
        data = f"{json.dumps(job)}\n".encode()
        while data:
            data = data[self.jobs.write(data[:4096]) :]
        found = self._answer(60 + 15 * float(job["cap"]))
        if found is None:
            self.close()
            return {"end": "late", "by": "it hangs", "seconds": job["cap"], "tests": 0}
        return found

    def close(self) -> None:
        """End it, and all that it started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.process.pid)
            for one in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
        self.process.wait()
        self.told.close()
        self.jobs.close()


class Bench:
    """Tries mutants, one at a time. `written`: each is written into the copy's file as well."""

    def __init__(
        self,
        copy: Copy,
        folder: Path,
        cache: Path,
        tests: Iterable[str],
        cap: float,
        written: bool = False,
    ) -> None:
        self.copy, self.folder, self.cache, self.cap = copy, folder, cache, cap
        self.written = written
        self.tests, self.sound = [*tests], dict[str, bool]()
        self.worker: Worker | None = None

    def tried(self, mutant: Mutant, tests: Tests) -> dict[str, object]:
        """Return how it ended: caught, MISSED or late, by which test, after how many seconds.

        `tests`: with their seconds; None: all that the worker has collected.
        """
        if tests is not None:
            tests = [one for one in tests if self.sound.get(one[0], True)]
        if tests == []:
            return {"end": "MISSED", "by": "nothing executes it", "seconds": 0.0, "tests": 0}
        module, text = self.copy.tree / mutant.module, self.folder / "planted.py"
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text(mutant.planted(module.read_text()))
        told = {"end": "anew"}
        if not self.written:
            told = self._asked(tests, str(module), str(text))
        if told["end"] == "anew":
            told = self._anew(tests, (module, text))
        # a test that fails without a mutant as well says nothing
        if told["end"] == "caught" and "::" in (by := str(told["by"])):
            if by not in self.sound:
                self.sound[by] = self._asked([(by, self.cap)])["end"] == "MISSED"
            if tests is not None and not self.sound[by]:
                return self.tried(mutant, tests)
        return told

    def _asked(self, tests: Tests, module: str = "", text: str = "") -> dict[str, Any]:
        if self.worker is None or self.worker.process.poll() is not None:
            self.worker = Worker(self.copy, self.folder / "worker", self.tests)
            if self.worker.ready is None or self.worker.ready["broken"]:
                raise RuntimeError((self.folder / "worker" / "output").read_text())
        return self.worker.asked(self._job(tests, module, text))

    def _job(self, tests: Tests, module: str, text: str) -> dict[str, Any]:
        # what a mutant leaves in a cache is no one else's
        shutil.rmtree(cache := self.folder / "cache", ignore_errors=True)
        shutil.copytree(self.cache, cache, copy_function=os.link)
        cap = self.cap
        return {"module": module, "text": text, "tests": tests, "cap": cap, "cache": str(cache)}

    def _anew(self, tests: Tests, planted: tuple[Path, Path]) -> dict[str, Any]:
        sums = accumulate(seconds for _, seconds in tests or ())
        some = [one for one, end in zip(tests or (), sums, strict=True) if end - one[1] <= self.cap]
        files = dict.fromkeys(test.split("::")[0] for test, _ in some) if tests else self.tests
        module, kept = planted[0], planted[0].read_text()
        if self.written:
            module.write_text(planted[1].read_text())
        worker = Worker(self.copy, self.folder / "anew", files, planted)
        try:
            if worker.ready is None or worker.ready["broken"]:
                return {"end": "caught", "by": "an import fails", "seconds": 0.0, "tests": 1}
            told = worker.asked(self._job(some if tests else None, "", ""))
            if told["end"] == "MISSED" and len(some) < len(tests or ()):
                told["end"] = "late"
            return told
        finally:
            worker.close()
            if self.written:
                module.write_text(kept)

    def close(self) -> None:
        if self.worker:
            self.worker.close()
