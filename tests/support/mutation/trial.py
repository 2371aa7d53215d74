"""One mutant planted in a copy, and the tests that execute it: does one fail?"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mutation.contexts import Contexts
from mutation.copies import Copy
from mutation.kinds import Mutant

STOP = threading.Event()  # ends what is being tried
_PARTS = (8.0, 40.0)  # tests of so many seconds are tried before the files of more are read
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Bench:
    """A copy in which mutants are tried, one at a time."""

    copy: Copy
    contexts: Contexts | None  # without: the tests given, in their order
    cache: Path
    cap: float  # seconds of a processor
    given: tuple[str, ...] = ()
    sound: dict[str, bool] = field(default_factory=dict)

    def tried(self, mutant: Mutant) -> dict[str, object]:
        """Return how it ended: caught, MISSED or late, by which test, after how many seconds."""
        if self.contexts and not self.contexts.looked_at(mutant.module):
            return {"end": "late", "by": "its module is not collected", "seconds": 0.0}
        module = self.copy.tree / mutant.module
        source, times = module.read_text(), module.stat()
        found, how = [*self.given], "given"
        if self.contexts:
            found, how = self.contexts.tests(mutant.module, source, mutant.line, mutant.end)
        tests = [test for test in found if self._there(test) and self.sound.get(test, True)]
        taken, end, by = 0.0, "MISSED", how
        for part in self._parts(tests):
            if not part or end != "MISSED":
                continue
            try:
                module.write_text(mutant.planted(source))
                end, by, seconds = self._run(part, self.cap - taken)
                taken += seconds
            finally:
                module.write_text(source)
                os.utime(module, ns=(times.st_atime_ns, times.st_mtime_ns))
            # a test that fails without a mutant as well says nothing, nor does a file like that
            for test in [t for t in (by, *part) if end == "caught" and by in (t, _import(t))][:1]:
                if test not in self.sound:
                    self.sound[test] = self._run([test], 10 * self.cap)[0] == "MISSED"
                if not self.sound[test]:
                    return self.tried(mutant)
        if end == "caught" and self.contexts:
            self.contexts.caught(mutant.module, by)
        told = {"end": end, "by": by if end == "caught" else how, "seconds": round(taken, 1)}
        return told | {"tests": len(tests), "expected": round(sum(map(self._seconds, tests)), 1)}

    def _parts(self, tests: list[str]) -> list[list[str]]:
        """Take tests apart by what they take together; of each part, a file's stand together.

        So a fixture of a file is made once for each part.
        """
        parts, sums = [list[str]() for _ in range(len(_PARTS) + 1)], 0.0
        for test in tests:
            sums += self._seconds(test) + 0.1
            parts[sum(sums > end for end in _PARTS)].append(test)
        for part in parts:
            first = {test.split("::")[0]: k for k, test in reversed([*enumerate(part)])}
            part.sort(key=lambda test: first[test.split("::")[0]])
        return parts

    def _there(self, test: str) -> bool:
        return (self.copy.tree / test.split("::")[0]).is_file()

    def _seconds(self, test: str) -> float:
        return self.contexts.seconds[test] if self.contexts else 0.0

    def _run(self, tests: list[str], cap: float) -> tuple[str, str, float]:
        chosen, cache = self.copy.folder / "chosen.json", self.copy.folder / "cache"
        (failed := chosen.with_suffix(".failed")).unlink(missing_ok=True)
        times = {test: self._seconds(test) for test in tests} if self.contexts else {}
        chosen.write_text(json.dumps(times))
        shutil.rmtree(cache, ignore_errors=True)  # what a mutant leaves there is no one else's
        shutil.copytree(self.cache, cache, copy_function=os.link)
        command = [self.copy.python, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "mutation.plugin"]
        command += ["-p", "no:cacheprovider"]
        command += sorted({test.split("::")[0] for test in tests}) if self.contexts else tests
        more = {"MUTATION_CHOSEN": str(chosen), "PYTHONDONTWRITEBYTECODE": "1"}
        with (self.copy.folder / "output").open("w") as output:
            process = subprocess.Popen(
                ["nice", *map(str, command)],
                cwd=self.copy.tree,
                env=self.copy.variables(cache) | more,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            seconds, late = _watched(process, cap)
        if late:
            return "late", "", seconds
        if process.returncode == pytest.ExitCode.USAGE_ERROR:
            raise RuntimeError((self.copy.folder / "output").read_text())
        caught = process.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        return (
            "caught" if caught else "MISSED",
            failed.read_text() if failed.exists() else "pytest",
            seconds,
        )


def _import(test: str) -> str:
    return f"import of {test.split('::')[0]}"


def _watched(process: subprocess.Popen[bytes], cap: float) -> tuple[float, bool]:
    """Wait for a session of processes; end it when it took more than `cap` of the processor."""
    begun, seconds = time.monotonic(), 0.0
    while True:
        seconds = max(seconds, sum(_session(process.pid).values()))
        try:
            process.wait(0.5)
            return seconds, False
        except subprocess.TimeoutExpired:
            pass
        if STOP.is_set() or seconds > cap or time.monotonic() > begun + 60 + 15 * cap:
            process.send_signal(signal.SIGINT)  # fixtures stop their servers
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                for one in _session(process.pid):
                    os.kill(one, signal.SIGKILL)
                process.wait()
            if STOP.is_set():
                raise InterruptedError
            return seconds, True


def _session(leader: int) -> dict[int, float]:
    """Return the processes of a session, and what each and its ended children took."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(words[3]) == leader:
            found[int(stat.parent.name)] = sum(map(int, words[11:15])) / _TICK
    return found
