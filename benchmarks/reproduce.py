"""What `penstock reproduce dana`, `sia` and `bolt` print, as parts of the page; without --write, and with --quick, a few of DAnA's workloads."""

from __future__ import annotations

from collections.abc import Iterable

from common import Options, Section, machine, main, markdown

from penstock.engines.analytics import dana
from penstock.engines.omap import bolt
from penstock.engines.qr import sia
from penstock.report.parts import Facts, Grid, Part

_FEW = ("RS LR", "Netflix")


def written(parts: Iterable[Part]) -> str:
    """Return facts and tables of a report as Markdown; charts are left out."""
    pieces = []
    for part in parts:
        if isinstance(part, Facts):
            pieces.append("\n".join(f"* {row.name}: {row.value}" for row in part.rows))
        elif isinstance(part, Grid):
            heads = " | ".join(column.name for column in part.columns)
            pieces += [f"**{part.title}**", markdown(heads, part.rows)]
            pieces += [part.caption] * bool(part.caption)
    return "\n\n".join(pieces)


def few(options: Options) -> tuple[str, ...]:
    return _FEW if options.quick else ()


def measured(options: Options) -> str:
    return f"{written(dana.measured(few(options), cpu=not options.quick))}\n\n{machine()}"


SECTIONS = [
    Section("dana", False, lambda options: written(dana.tables(few(options)))),
    Section("dana-measured", True, measured),
    Section("sia", False, lambda options: written(sia.parts())),
    Section("bolt", False, lambda options: written(bolt.parts())),
]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
