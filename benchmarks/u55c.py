"""How the 54-feature logistic regression with batches of 256 scales over the memory ports of an HBM part, by the cycle model."""

from __future__ import annotations

from common import SHAPES, Options, Section, main, markdown, merged, schema

from penstock import Choices
from penstock.api import assume, compile
from penstock.dsl.core.diagnostics import KernelError

GOAL = 100.0


def make(options: Options) -> str:
    rows, best = [], {}
    count = 20_000 if options.quick else SHAPES[54][1]
    for number in ("float32", "bfloat16"):
        for ports in (1, 8) if options.quick else (None, 1, 2, 4, 8, 16, 32):
            try:
                design = compile(
                    merged("logistic", 256),
                    "u55c",
                    schema(54),
                    number,
                    choices=Choices(ports=ports),
                )
            except KernelError as problem:
                rows.append((number, ports or "the planner's", f"no plan: {problem}", *[""] * 9))
                continue
            table = assume(design.plan.schema, count)
            run = design.run(table, "model", epochs=1)
            assert run.bound is not None and run.cycles is not None
            plan, found, part = design.plan, design.resources, design.target
            rate = table.pages * plan.page_size / (run.cycles / part.clock_mhz / 1e6) / 1e9
            best[number] = max(best.get(number, 0.0), rate)
            shares = [
                f"{getattr(found, what):,} ({getattr(found, what) / getattr(part, what):.0%})"
                for what in ("lut", "dsp", "bram")
            ]
            rows.append(
                (
                    number,
                    ports or f"{plan.ports} (the planner's)",
                    f"{plan.threads} × {plan.lanes}",
                    f"{run.cycles:,}",
                    run.bound.by,
                    f"{run.cycles / run.bound.cycles:.3f}",
                    f"{rate:.1f}",
                    *shares,
                    found.fits(part) or "yes",
                )
            )
    verdicts = [
        f"{number}: {rate:.1f} GB/s, goal of {GOAL:g} GB/s {'met' if rate >= GOAL else '**not met**'}"
        for number, rate in best.items()
    ]
    return markdown(
        (
            "format",
            "ports",
            "threads × lanes",
            "cycles",
            "binds",
            "ratio",
            "pages, GB/s",
            "LUT",
            "DSP",
            "BRAM",
            "fits",
        ),
        rows,
    ) + ("" if options.quick else f"\n\nAt best, {'; '.join(verdicts)}.")


SECTIONS = [Section("u55c", False, make)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
