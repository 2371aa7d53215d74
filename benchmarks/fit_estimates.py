"""Estimates of fits over columns beside synthesis: random engines for ECP5 boards, each synthesised whole and packed, and every resource compared.

What is counted is what `penstock build` builds, as `estimates.py` counts it. `--seeds 0:8` names the engines; results are kept in `--keep`.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from common import markdown
from estimates import packed

from penstock.api import compile
from penstock.boards.catalogue import boards
from penstock.dsl.core.load import load_kernel
from penstock.hdl.modules import ModuleLibrary
from penstock.hdl.qr.table_engine import TableFitEngine
from penstock.models.heap.schema import Column, Schema
from penstock.models.qr.resources import estimate
from penstock.models.qr.table_config import TableFitPlan
from penstock.models.target import Target

KERNEL = "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"


@dataclass(frozen=True)
class Case:
    """A random engine for a board."""

    board: Target
    engine: TableFitPlan
    types: str


def draw(seed: int, kernel: Path) -> Case:
    """Return the engine of a seed."""
    rng = random.Random(seed)
    features, types = (
        rng.randint(1, 11),
        rng.choice((("float4",), ("float8",), ("int2", "int4"), ("float4", "int8", "float8"))),
    )
    columns = [
        Column(f"x{k}", rng.choice(types), not_null=rng.random() < 0.5) for k in range(features)
    ]
    table = Schema(
        "random",
        (*columns, Column("y", rng.choice(types))),
        page_size=rng.choice((1024, 2048, 8192)),
    )
    bindings = {"x": [column.name for column in columns]} if features > 1 else {"x": ["x0"]}
    board = boards()["ulx3s-85f"]
    planned = compile(
        load_kernel(kernel),
        board,
        table,
        limbs=rng.choice((1, 1, 2)),
        bindings=bindings,
        dims={"d": features},
    ).plan
    lanes, walkers = rng.choice((1, 2, 4, planned.columns.products)), rng.choice((1, 1, 2))
    chosen = replace(
        planned,
        columns=replace(planned.columns, gram_lanes=min(lanes, planned.columns.products)),
        walkers=walkers,
        bus_bytes=rng.choice((8, 16, 32)),
        slots=4 if walkers == 1 else rng.choice((8, 64)),
    )
    return Case(board, chosen, ", ".join(types))


def hardware(plan: TableFitPlan) -> tuple[TableFitEngine, ModuleLibrary]:
    """Return a plan's engine, not elaborated yet, and the library of its modules."""
    library = ModuleLibrary()
    return TableFitEngine(plan, library, design=1), library


HEADS = (
    "features",
    "limbs",
    "columns",
    "products",
    "Striders",
    "bus",
    "page",
    "LUT, estimated / packed",
    "error",
    "FF",
    "DSP",
    "BRAM",
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="0:8", help="first and end of the engines' seeds")
    parser.add_argument("--keep", type=Path, default=Path("estimates"), help="folder of results")
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    options.keep.mkdir(parents=True, exist_ok=True)
    kernel = options.keep / "f.psk"
    kernel.write_text(KERNEL)
    rows, errors, exact = [], [], 0
    for seed in range(first, end):
        case = draw(seed, kernel)
        made, expected = case.engine, estimate(case.engine, case.board)
        found = packed(
            lambda made=made: hardware(made), case.board, options.keep, {"config": made.to_json()}
        )
        columns, error = made.columns, expected.lut / found["lut"] - 1
        errors.append(abs(error))
        exact += (expected.dsp, expected.bram) == (found["dsp"], found["bram"])
        others = (
            f"{getattr(expected, what):,} / {found[what]:,}" for what in ("ff", "dsp", "bram")
        )
        rows.append(
            (
                columns.n - 1,
                max(columns.limbs),
                case.types,
                columns.gram_lanes,
                made.walkers,
                made.bus_bytes,
                made.walk.schema.page_size,
                f"{expected.lut:,} / {found['lut']:,}",
                f"{error:+.1%}",
                *others,
            )
        )
        print(" | ".join(map(str, (seed, *rows[-1]))), file=sys.stderr, flush=True)
    print(
        f"look-up tables: {max(errors):.1%} off at most, {sum(errors) / len(errors):.1%} on average; multiplier blocks and block RAMs exact in "
        f"{exact} of {len(rows)}\n"
    )
    print(markdown(HEADS, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
