"""The planner beside a full sweep of forced options, beside the machine's bound, and beside an earlier planner.

python benchmarks/planner.py               # 10 sizes × 2 merges × 3 targets against a sweep of all forced options: half an hour
python benchmarks/planner.py --keep rows   # the same, in parts: what is in the file is not computed again
python benchmarks/planner.py --dram        # DAnA's shapes under DRAM timing against the machine's bound
python benchmarks/planner.py --against 20074e0     # seconds of planning, both in one run
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from common import ROOT, SHAPES, kernel, markdown, missing, schema

from penstock.api import compile
from penstock.dsl.core.diagnostics import KernelError
from testbench.sweep import held, judged, linear, modelled

SIZES = (1, 3, 10, 30, 54, 100, 300, 1000, 3000, 8000)
MERGES = (16, 256)
TARGETS = ("ulx3s-85f-sdram", "vu9p", "u55c")
ROWS = 20_000


def swept(sizes: tuple[int, ...], kept: Path | None) -> str:
    """`kept`: a file of rows, one a line, that are there already; others are added."""
    rows = (
        [json.loads(line) for line in kept.read_text().splitlines()]
        if kept and kept.exists()
        else []
    )
    for size, merge, target in product(sizes, MERGES, TARGETS):
        if any(row[:3] == [size, merge, target] for row in rows):
            continue
        begin = perf_counter()
        try:
            found = judged(linear(merge), target, ROWS, dims={"d": size})
        except KernelError as refused:
            print(size, merge, target, refused.diagnostic.message, file=sys.stderr, flush=True)
            continue
        machine = found.cycles / found.machine
        rows.append(
            [size, merge, target, found.cycles, found.best, found.ratio, machine, found.plans]
        )
        print(*rows[-1], f"{perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
        if kept:
            with kept.open("a") as file:
                print(json.dumps(rows[-1]), file=file)
    header = "d | merge | target | cycles | best of the sweep | ratio | ÷ machine's | plans"
    shown = [
        f"{size} | {merge} | {target} | {cycles:,} | {best:,} | {ratio:.3f} | {machine:.3f} | {plans}"
        for size, merge, target, cycles, best, ratio, machine, plans in rows
    ]
    worst = max(row[5] for row in rows)
    return markdown(header, shown) + f"\n\nAt most {worst:.3f} × the best plan that fits."


def dram() -> str:
    rows = []
    for target, memory in (("ulx3s-85f-sdram", "dram"), ("vu9p", "ddr4-2400"), ("u55c", "dram")):
        for name in ("linear", "logistic", "svm", "ridge", "mlp"):
            for features in SHAPES:
                dims = {"h": 8} if name == "mlp" else {}
                design = compile(kernel(name), target, schema(features), dims=dims, memory=memory)
                run = modelled(design, held(design, ROWS))
                ratio = run.cycles / run.bound_machine.cycles
                goal = 1.15 if name == "mlp" else 1.05
                why = "" if ratio <= goal else missing(design, run)
                rows.append((f"{name} {features}", target, memory, f"{ratio:.3f}", why))
                print(*rows[-1], file=sys.stderr, flush=True)
    return markdown("kernel | target | memory | ÷ machine's bound | cycles a batch", rows)


def seconds() -> Iterator[float]:
    """Time the planning of each shape, in seconds of a processor: the quickest of three; none, 0 s, where it does not fit."""
    for size in (10, 54, 100, 520, 1000, 8000):
        for merge in MERGES:
            for target in TARGETS:
                times = []
                for _ in range(3):
                    begin = process_time()
                    try:
                        compile(linear(merge), target, dims={"d": size})
                    except KernelError:
                        break
                    times.append(process_time() - begin)
                yield min(times, default=0.0)


def against(revision: str) -> str:
    """Return how long planning takes beside that of a revision; each in processes of its own, by turns."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        tree.mkdir()
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True)
        subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)
        package = Path(folder, "path", "penstock")
        shutil.copytree(tree / "src" / "penstock", package)
        for part in ("boards", "dsl", "hdl", "host", "models", "sim"):
            shutil.copytree(tree / part, package / part)
        times: dict[str, list[list[float]]] = {"": [], str(package.parent): []}
        for _ in range(2):
            for path, found in times.items():
                environment = {**os.environ, **({"PYTHONPATH": path} if path else {})}
                command = [sys.executable, __file__, "--seconds"]
                done = subprocess.run(command, env=environment, capture_output=True, check=True)
                found.append(json.loads(done.stdout))
    now, then = ([min(pair) for pair in zip(*found, strict=True)] for found in times.values())
    ratios = [a / b for a, b in zip(now, then, strict=True) if a and b]
    return (
        f"{len(ratios)} plans: {sum(now):.1f} s beside {sum(then):.1f} s at {revision}: "
        f"{sum(now) / sum(then):.2f} × in all, {median(ratios):.2f} × at the median, {max(ratios):.2f} × at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three sizes of the sweep")
    parser.add_argument(
        "--keep", metavar="FILE", type=Path, help="rows of the sweep, to go on from"
    )
    parser.add_argument("--dram", action="store_true")
    parser.add_argument("--against", metavar="REVISION")
    parser.add_argument("--seconds", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.seconds:
        print(json.dumps(list(seconds())))
    elif given.against:
        print(against(given.against))
    else:
        print(dram() if given.dram else swept(SIZES[1::4] if given.quick else SIZES, given.keep))


if __name__ == "__main__":
    main()
