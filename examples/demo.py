"""The demonstration behind scripts/demo: logistic regression on pages of a real PostgreSQL server, in simulated hardware.

Compiles examples/logistic.py for a target, runs it on examples/data/cancer.heap (569 tumours, 30 features) as golden model, as cycle model and as
Verilog in Verilator, and prints whether the three agree, and what scikit-learn makes of the same table.

Exit code: 0 where all are equal, 3 where they differ.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import penstock as ps
from penstock.api import compile
from penstock.host.sources import open_table

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"


def line(what: str, *values: object) -> None:
    print(f"  {what:<28}" + "".join(f"{value!s:<26}" for value in values).rstrip())


def count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def accuracy(weights: np.ndarray, x: np.ndarray, y: np.ndarray, offset: float = 0.0) -> str:
    right = int(np.sum((x @ weights + offset > 0) == (y == 1)))
    return f"{right / len(y):.2%} ({right} of {len(y)})"


def main() -> int:
    parser = argparse.ArgumentParser(description="Logistic regression on PostgreSQL pages in simulated hardware.")
    parser.add_argument("--target", default="ulx3s-85f-sdram", help="ulx3s-85f-sdram where nothing is said; vu9p takes minutes to build")
    parser.add_argument("--format", default="float32", help="float32, bfloat16, fixed:8,24, …")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--memory", help="as penstock takes it; the target's own DRAM where nothing is said, and where it has one")
    options = parser.parse_args()

    begin = perf_counter()
    table = open_table(f"heap:{DATA / 'cancer.heap'},{DATA / 'cancer.json'}")
    print(f"logistic regression on {table.rows} rows in {len(table.pages)} heap pages that a PostgreSQL server wrote")
    memory = options.memory or ("dram" if ps.target(options.target).dram else None)
    design = compile(HERE / "logistic.py", options.target, table, options.format, memory=memory, epochs=options.epochs)
    plan = design.plan
    print(f"for {design.target.title}\n"
          f"{options.format}; {count(plan.ports, 'memory port')} ({design.memory}), {count(plan.threads, 'thread')} × {count(plan.lanes, 'lane')}")

    golden = design.run(table, "golden")
    if golden.codes is None or golden.result is None:
        print(f"the pages cannot be read: {golden.errors[0]}", file=sys.stderr)
        return 2
    model = design.run(table, "model", epochs=golden.epochs)
    start = perf_counter()
    lines = design.verilog.count("\n")
    verilog = perf_counter() - start
    print(f"Verilog: {lines} lines in {verilog:.1f} s; compiling the simulation, up to a minute the first time …", flush=True)
    start = perf_counter()
    design.library()
    build = perf_counter() - start
    rtl = design.run(table, "rtl")

    rows = table.columns()
    x, y = np.asarray(rows["x"], dtype=np.float64), np.asarray(rows["y"])
    reference = LogisticRegression(max_iter=1000).fit(x, y)
    theirs, offset = reference.coef_[0], float(reference.intercept_[0])

    bits = rtl.codes is not None and all(np.array_equal(rtl.codes[name], golden.codes[name]) for name in golden.codes)
    cycles = rtl.cycles == model.cycles
    assert model.bound is not None and model.cycles is not None
    print()
    line("", "Penstock", "scikit-learn")
    ours = rtl.result["w"] if rtl.result is not None else golden.result["w"]
    line("accuracy", accuracy(ours, x, y), accuracy(theirs, x, y, offset))
    names = load_breast_cancer().feature_names
    for feature in np.argsort(-np.abs(ours))[:5]:
        line(f"w[{names[feature]}]", f"{ours[feature]:+.6f}", f"{theirs[feature]:+.6f}")
    print()
    line("RTL = golden, bit for bit", "yes" if bits else "NO", f"{ours.size} weights, {golden.epochs} epochs")
    line("RTL = model, in cycles", "yes" if cycles else "NO", f"{rtl.cycles:,} and {model.cycles:,}" if rtl.cycles is not None else "")
    line("bound", f"{model.bound.cycles:,} cycles", f"{model.cycles / model.bound.cycles:.3f} ×; {model.bound.by} binds")
    line("at the target's clock", f"{model.cycles / design.target.clock_mhz / 1e3:.2f} ms", f"{design.target.clock_mhz:g} MHz")
    times = f"{model.seconds:.2f} model, {verilog:.1f} to Verilog, {build:.1f} compilation, {perf_counter() - begin:.1f} in all"
    line("seconds", f"{rtl.seconds:.2f} simulated", times)
    for problem in rtl.errors:
        print(f"the hardware stopped: {problem}", file=sys.stderr)
    return 0 if bits and cycles else 3


if __name__ == "__main__":
    sys.exit(main())
