"""A plug-in of pytest (`-p mutation.plugin`): records which test executes which line, or runs chosen tests.

With MUTATION_RECORD, a folder, under coverage.py: every test is a context. Lines of JSON in
`tests.jsonl` say what it took of the processor and how it ended, once what it executed is stored;
tests that stand there already are left out. One that takes more than MUTATION_SECONDS is ended.
With MUTATION_CHOSEN, a file of JSON: these tests, in this order, with their seconds. One that takes
many times as long fails. What fails is written beside that file.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

RECORD, CHOSEN = os.environ.get("MUTATION_RECORD"), os.environ.get("MUTATION_CHOSEN")
_TICK = os.sysconf("SC_CLK_TCK")
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
    found: dict[int, tuple[int, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            words = stat.read_text().rpartition(")")[2].split()
            found[int(stat.parent.name)] = int(words[1]), sum(map(int, words[11:15])) / _TICK
    ours = {os.getpid()}
    while more := {pid for pid, (parent, _) in found.items() if parent in ours} - ours:
        ours |= more
    return sum(found[pid][1] for pid in ours if pid in found)


def processor() -> float:
    """Return the seconds of a processor that this process took, and those it waited for."""
    return sum(os.times()[:4])


class Recorder:
    """Stores contexts now and then: a collection that is cut goes on from there."""

    def __init__(self, folder: Path) -> None:
        self.lines: list[dict[str, object]] = []
        self.file, self.stored = folder / "tests.jsonl", time.monotonic()

    def store(self) -> None:
        import coverage

        if current := coverage.Coverage.current():
            current.save()
        with self.file.open("a") as file:
            file.write("".join(f"{json.dumps(line)}\n" for line in self.lines))
        self.lines, self.stored = [], time.monotonic()

    def context(self, name: str) -> None:
        import coverage

        if current := coverage.Coverage.current():
            current.switch_context(name)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        for text in Path(os.environ["PENSTOCK_CACHE"]).glob("design-*.v"):
            text.unlink(missing_ok=True)  # every test has to execute what makes Verilog
        begun, self.ended = processor(), "passed"
        self.context(f"{item.nodeid}|setup")
        limited(LIMIT)
        result = yield
        if Slow.ended:
            self.ended = "slow"
        limited(0)
        self.context("")
        seconds = round(processor() - begun, 3)
        self.lines.append({"test": item.nodeid, "seconds": seconds, "ended": self.ended})
        if time.monotonic() > self.stored + 60:
            self.store()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self.context(item.nodeid)
        try:
            return (yield)
        finally:
            self.context(f"{item.nodeid}|setup")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.ended = report.outcome

    def pytest_sessionfinish(self) -> None:
        self.store()


class Chosen:
    """Runs chosen tests, and notes the first that fails."""

    def __init__(self, file: Path) -> None:
        self.seconds, self.failed = json.loads(file.read_text()), file.with_suffix(".failed")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if not self.seconds:  # all that were given
            return
        place = {name: k for k, name in enumerate(self.seconds)}
        items[:] = sorted((i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        limited(10 + 10 * self.seconds.get(item.nodeid, 9))
        try:
            return (yield)
        finally:
            limited(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.write_text(f"import of {report.nodeid}")


class Left:
    """Leaves out what a collection has already."""

    @staticmethod
    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        lines = (Path(RECORD or "") / "tests.jsonl").read_text().splitlines()
        done = {json.loads(line)["test"] for line in lines}
        items[:] = [item for item in items if item.nodeid not in done]


def pytest_configure(config: pytest.Config) -> None:
    if CHOSEN:
        with contextlib.suppress(ImportError):  # an example that fails is enough
            from hypothesis import Phase, settings

            settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate))
            settings.load_profile("mutants")
        config.pluginmanager.register(Chosen(Path(CHOSEN)))
    elif RECORD:
        config.pluginmanager.register(Left())
        if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
            config.pluginmanager.register(Recorder(Path(RECORD)))
