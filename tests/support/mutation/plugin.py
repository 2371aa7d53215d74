"""A plug-in of pytest (`-p mutation.plugin`): records which test executes which mutant's line, or
tries mutants.

With MUTATION_RECORD, a folder: lines of JSON say what each test took of the processor, how it ended
and which probes (mutation.finder) it passed; tests that stand there already are left out. One that
takes more than MUTATION_SECONDS is ended. With MUTATION_TRIALS, a name in front of two pipes
(mutation.trial): tests are collected once; each trial is a child of this process.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from pathlib import Path
from typing import Any

import psutil
import pytest

from mutation.codes import replaced

RECORD, TRIALS = os.environ.get("MUTATION_RECORD"), os.environ.get("MUTATION_TRIALS")
LIMIT = float(os.environ.get("MUTATION_SECONDS") or 0)


class Slow(BaseException):
    """A test takes too long; hypothesis does not take it for an example that fails."""

    ended = False


def limited(seconds: float) -> None:
    """End a test that takes more of the processor from now on, with all that it starts; 0: none does."""
    begun = family() if seconds else 0.0

    def looked(*_: object) -> None:
        if family() > begun + seconds:
            limited(0)
            Slow.ended = True
            raise Slow

    Slow.ended = False
    signal.signal(signal.SIGALRM, looked)
    signal.setitimer(signal.ITIMER_REAL, bool(seconds), 1)


def family() -> float:
    """Return the seconds of a processor of this process, those it started, and those that ended."""
    taken, me = 0.0, psutil.Process()
    for one in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            taken += sum(one.cpu_times()[:4])  # its own, and of children that ended
    return taken


class Recorder:
    """Stores each test when it has ended: a collection that is cut goes on from there."""

    def __init__(self, folder: Path) -> None:
        from copied_checkout import HITS  # of the copy's environment

        self.file, self.hits = folder / f"tests-{os.getpid()}.jsonl", HITS
        self.fixtures = defaultdict[object, set[int]](set)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        """What a fixture of many tests executes, each of them does."""
        before = set(self.hits)
        self.hits.clear()
        try:
            return (yield)
        finally:
            self.fixtures[fixturedef] |= self.hits
            self.hits |= before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[Any]:
        for text in Path(os.environ["PENSTOCK_CACHE"]).glob("design-*.v"):
            text.unlink(missing_ok=True)  # every test has to execute what makes Verilog
        begun, self.ended = family(), "passed"
        self.hits.clear()
        limited(LIMIT)
        result = yield
        slow = Slow.ended
        limited(0)
        for name in item.fixturenames:
            for one in item._fixtureinfo.name2fixturedefs.get(name, ()):
                self.hits |= self.fixtures[one]
        told = {"test": item.nodeid, "seconds": round(family() - begun, 3)}
        told |= {"ended": "slow" if slow else self.ended, "hits": sorted(self.hits)}
        with self.file.open("a") as file:
            file.write(f"{json.dumps(told)}\n")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.ended = report.outcome

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        files = Path(RECORD or "").glob("tests-*.jsonl")
        done = {json.loads(line)["test"] for file in files for line in file.open()}
        items[:] = [item for item in items if item.nodeid not in done]


class Trials:
    """Tries mutants one after the other, each in a child of its own."""

    def __init__(self, name: str) -> None:
        self.name, self.failed = name, ""
        self.items: dict[str, pytest.Item] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        gc.collect()
        gc.freeze()  # what children share is not written to
        with open(f"{self.name}.in") as jobs, open(f"{self.name}.out", "w", buffering=1) as told:
            broken = session.testsfailed
            print(json.dumps({"ready": len(self.items), "broken": broken}), file=told)
            for line in jobs:
                if not (child := os.fork()):
                    os.setsid()
                    self._child(json.loads(line))
                _, status = os.waitpid(child, 0)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)  # what it left running
                end = Path(f"{self.name}.end")
                text = end.read_text() if end.exists() else json.dumps({"end": f"died {status}"})
                end.unlink(missing_ok=True)
                print(text, file=told)
        return True

    def _child(self, job: dict[str, Any]) -> None:
        """Plant, run the tests until one fails, write how it ended."""
        try:
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silent, stream)
            os.environ["PENSTOCK_CACHE"] = job["cache"]
            end = self._planted(job) or self._judged(job)
        except BaseException as error:  # whatever happens is told
            end = {"end": "broken", "by": repr(error)[:300]}
        (new := Path(f"{self.name}.new")).write_text(json.dumps(end))
        new.rename(f"{self.name}.end")
        os._exit(0)

    def _planted(self, job: dict[str, Any]) -> dict[str, Any] | None:
        if not job["module"]:
            return None
        os.environ["MUTATION_PLANTED"] = f"{job['module']}{os.pathsep}{job['text']}"
        if any(getattr(m, "__file__", "") == job["module"] for m in [*sys.modules.values()]):
            gc.unfreeze()
            if not replaced(job["module"], Path(job["text"]).read_text()):
                return {"end": "anew"}  # what an import executes has changed
            for one in gc.get_objects():
                if isinstance(one, _lru_cache_wrapper) and "penstock" in one.__module__:
                    one.cache_clear()
        return None

    def _judged(self, job: dict[str, Any]) -> dict[str, Any]:
        begun, taken = family(), 0.0
        wanted = [(t, 9.0) for t in self.items] if job["tests"] is None else job["tests"]
        chosen = [(self.items[t], s) for t, s in wanted if t in self.items]
        for k, (item, seconds) in enumerate(chosen):
            following = chosen[k + 1][0] if k + 1 < len(chosen) else None
            left = job["cap"] - taken
            limited(min(left, 60 + 10 * seconds))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            slow = Slow.ended
            limited(0)
            taken = family() - begun
            told = {"by": item.nodeid, "seconds": round(taken, 1), "tests": k + 1}
            if taken > job["cap"] - 1 and (slow or not self.failed):
                return told | {"end": "late"}
            if self.failed:
                return told | {"end": "caught"}
        return {"end": "MISSED", "by": "", "seconds": round(taken, 1), "tests": len(chosen)}


def pytest_configure(config: pytest.Config) -> None:
    if TRIALS:
        with contextlib.suppress(ImportError):  # an example that fails is enough
            from hypothesis import Phase, settings

            settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate))
            settings.load_profile("mutants")
        config.pluginmanager.register(Trials(TRIALS))
    elif RECORD and (hasattr(config, "workerinput") or not config.getoption("numprocesses", None)):
        config.pluginmanager.register(Recorder(Path(RECORD)))
