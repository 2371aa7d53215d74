"""Seconds that the cycle model takes: beside native simulation at 10,000 rows, and at DAnA's full shapes."""

from __future__ import annotations

import statistics

from common import (
    SHAPES,
    Options,
    Section,
    kernel,
    machine,
    main,
    markdown,
    ms,
    random_table,
    repeated,
    schema,
    spread,
)

from penstock.api import assume, compile
from testbench.sweep import held

GOAL = 100


def make(options: Options) -> str:
    """Return both tables."""
    return "\n\n".join((machine(), _beside_simulation(options), _at_full_size(options)))


def _beside_simulation(options: Options) -> str:
    """Return the model's speed beside that of the simulation of the same designs."""
    rows = []
    count = 200 if options.quick else 10_000
    table = random_table(54, count)
    for target in ("small",) if options.quick else ("small", "ulx3s-85f-sdram"):
        design = compile(kernel("logistic"), target, table)
        for epochs in (1, design.plan.epochs):
            model = repeated(
                lambda design=design, epochs=epochs: design.run(table, "model", epochs=epochs), 9
            )
            runs = [
                design.run(table, "rtl", epochs=epochs)
                for _ in range(1 if options.quick else 3 if epochs == 1 else 1)
            ]
            wanted = design.run(table, "model", epochs=epochs).cycles
            assert all(run.cycles == wanted for run in runs)
            ratio = statistics.median(run.seconds for run in runs) / statistics.median(model)
            rows.append(
                f"logistic 54, {target} | {count:,} × {epochs} | {wanted:,} | {spread(model, ms)} | "
                f"{spread([run.seconds for run in runs], ms)} | {ratio:.0f} × ({'met' if ratio >= GOAL else '**not met**'})"
            )
    heads = f"design | rows × epochs | cycles | model, ms | native simulation, ms | simulation ÷ model, goal ≥ {GOAL}"
    return markdown(heads, rows)


def _at_full_size(options: Options) -> str:
    """Return the time to plan and model public tables."""
    full = []
    for target in ("small",) if options.quick else ("ulx3s-85f-sdram", "vu9p", "u55c"):
        for features, (name, size) in SHAPES.items():
            if options.quick and features != 54:
                continue
            begin = repeated(
                lambda target=target, features=features: compile(
                    kernel("logistic"), target, schema(features)
                ),
                1,
            )
            design = compile(kernel("logistic"), target, schema(features))
            held_rows = held(design, size)
            assumed = assume(design.plan.schema, held_rows)
            model = repeated(
                lambda design=design, assumed=assumed: design.run(assumed, "model", epochs=1), 3
            )
            cycles = design.run(assumed, "model", epochs=1).cycles
            full.append(
                f"logistic {features}, {name} | {target} | {held_rows:,} | {cycles:,} | {ms(begin[0])} | {spread(model, ms)}"
            )
    return markdown("kernel, table | target | rows | cycles | plan, ms | model, ms", full)


SECTIONS = [Section("model-speed", True, make)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
