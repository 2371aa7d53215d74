"""`penstock explain` and `penstock targets`."""

from __future__ import annotations

import click

from penstock.report.rows import Column, Grid
from penstock.state import State

__all__ = ["COMMANDS"]


@click.pass_obj
def _explain(state: State, code: str) -> None:
    """Print the page of a diagnostic, such as E614 or TUPLE_NULL."""
    from penstock.discovery import engines
    from penstock.dsl.core.codes import explain
    from penstock.models.errors import ErrorCode, HardwareCode

    enumerations: list[type[HardwareCode]] = [ErrorCode]
    for engine in engines().values():
        enumerations += engine.errors
    pages = {member.name: member.page for codes in enumerations for member in codes}
    text = explain(pages.get(code.strip().upper(), code))
    if state.out.is_terminal:
        from rich.markdown import Markdown

        state.out.print(Markdown(text))
    else:
        click.echo(text, nl=False)


@click.pass_obj
def _targets(state: State) -> None:
    """List what kernels can be compiled for."""
    from penstock.report.terminal import show

    show(state.out, (targets_grid(state.out.width),))


def targets_grid(width: int) -> Grid:
    """Return all targets with what they have, for a terminal of `width` columns."""
    from penstock.models.target import TARGETS
    from penstock.report.words import amount

    beside, rows = width >= 136, []
    for t in TARGETS.values():
        numbers = (t.clock_mhz, t.ports, round(t.bandwidth / 1e9, 2), t.lut, t.ff, t.dsp, t.bram)
        cells = (t.name, *map(amount, numbers))
        rows.append((*cells, t.title) if beside else cells)
    longest = max(map(len, TARGETS))
    titles = "\n".join(f" {t.name:<{longest}}  {t.title}" for t in TARGETS.values())
    names = ("MHz", "ports", "GB/s", "LUT", "FF", "DSP", "BRAM")
    columns = [Column("target", whole=True)]
    columns += [Column(name, right=True, whole=True) for name in names]
    columns += [Column("what it is")] if beside else []
    return Grid(tuple(columns), tuple(rows), caption="" if beside else titles)


COMMANDS = (
    click.Command(
        "explain",
        callback=_explain,
        params=[click.Argument(("code",), metavar="CODE")],
        help=_explain.__doc__,
    ),
    click.Command("targets", callback=_targets, help=_targets.__doc__),
)
