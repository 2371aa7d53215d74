"""Cycles, bound and ratio of all examples at DAnA's table shapes, by the cycle model at full row counts."""

from __future__ import annotations

from collections.abc import Iterator

from common import SHAPES, Options, Section, kernel, main, markdown, missing, ms, schema

from penstock.api import assume, compile
from penstock.dsl.core.diagnostics import KernelError

TARGETS = ("ulx3s-85f-sdram", "vu9p", "u55c")
GLMS = ("linear", "logistic", "svm", "ridge")
#: LRMF: users, items, rank; an epoch has a tuple a user
LRMF = {"m": 128, "n": 256, "k": 10}
HIDDEN = 8


def cases(quick: bool) -> Iterator[tuple[str, int, int, dict[str, int], int]]:
    """Yield example, features, rows, its other dimensions, epochs."""
    for name in (*GLMS, "mlp"):
        for features, (_, rows) in SHAPES.items():
            if not quick or features == 54:
                yield (
                    name,
                    features,
                    1000 if quick else rows,
                    {"h": HIDDEN} if name == "mlp" else {},
                    1,
                )
    if not quick:
        yield "lrmf", 0, LRMF["m"], LRMF, 20


def make(options: Options) -> str:
    parts = []
    for target in TARGETS[:1] if options.quick else TARGETS:
        rows, met, short = [], 0, []
        for name, features, count, dims, epochs in cases(options.quick):
            goal = 1.05 if name in GLMS else 1.15
            label = (
                f"{name} {features}"
                if features
                else f"{name} {dims['m']} × {dims['n']}, rank {dims['k']}"
            )
            try:
                design = compile(
                    kernel(name),
                    target,
                    schema(features) if features else None,
                    dims=dims,
                    epochs=epochs,
                )
            except KernelError as problem:
                rows.append((label, f"{count:,}", f"no plan: {problem}", *[""] * 9))
                continue
            table = assume(design.plan.schema, count)
            run = design.run(table, "model", epochs=epochs)
            assert run.bound and run.bound_machine and run.cycles is not None
            plan, ratio = design.plan, run.cycles / run.bound_machine.cycles
            seconds = run.cycles / design.target.clock_mhz / 1e6
            if ratio <= goal:
                met += 1
            else:
                short.append(f"{label} ({ratio:.3f}; {missing(design, run)})")
            rows.append(
                (
                    label,
                    f"{count:,}" + (f" × {epochs} epochs" if epochs > 1 else ""),
                    f"{plan.ports} · {plan.threads} × {plan.lanes}",
                    f"{run.cycles:,}",
                    f"{run.bound.cycles:,}",
                    f"{run.bound_machine.cycles:,}",
                    run.bound_machine.by,
                    f"{ratio:.3f}",
                    "yes" if ratio <= goal else f"**no**, ≤ {goal}",
                    ms(seconds / epochs),
                    f"{table.pages * plan.page_size * epochs / seconds / 1e9:.2f}",
                )
            )
        parts.append(
            f"**{target}**\n\n"
            + markdown(
                (
                    "example, features",
                    "rows",
                    "ports · threads × lanes",
                    "cycles",
                    "plan's bound",
                    "machine's",
                    "binds",
                    "ratio",
                    "goal met",
                    "epoch, ms",
                    "pages, GB/s",
                ),
                rows,
            )
            + f"\n\nWithin the goal: {met} of {len(rows)}."
            + (f" Short of it: {'; '.join(short)}." if short else "")
        )
    return "\n\n".join(parts)


SECTIONS = [Section("shapes", False, make)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
