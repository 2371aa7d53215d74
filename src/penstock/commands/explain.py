"""`penstock explain` and `penstock targets`."""

import json

import click

from penstock.cli.commandline import Command
from penstock.cli.completion import codes
from penstock.cli.completion import targets as targets_called
from penstock.cli.state import State
from penstock.models.target import RESOURCES, Target
from penstock.report.parts import Column, Grid


@click.pass_obj
def _explain(state: State, code: str) -> None:
    """Print the page of a diagnostic, such as E614 or TUPLE_NULL."""
    from penstock.dsl.core.codes import explain
    from penstock.engines.discovery import error_pages

    text = explain(error_pages().get(code.strip().upper(), code))
    if state.out.is_terminal:
        from rich.markdown import Markdown

        state.out.print(Markdown(text))
    else:
        click.echo(text, nl=False)


@click.pass_obj
def _targets(state: State, name: str | None, as_json: bool) -> None:
    """List what kernels can be compiled for; of the one called NAME, or described by the TOML file NAME, print
    every number with its source."""
    from penstock.boards.catalogue import targets
    from penstock.report.terminal import show
    from penstock.targets import target_named

    chosen = [target_named(name)] if name is not None else list(targets().values())
    if as_json:
        records = [target.to_json() for target in chosen]
        click.echo(json.dumps(records if name is None else records[0], indent=1))
    else:
        grid = targets_grid(state.out.width) if name is None else record_grid(chosen[0])
        show(state.out, (grid,))


def record_grid(t: Target) -> Grid:
    """Return what a target is, and where its numbers come from."""
    from penstock.report.words import amount, size_text

    def counts(of: object) -> str:
        return ", ".join(f"{getattr(of, name):,} {name.upper()}" for name in RESOURCES)

    part, kept, clock = t.part, t.reserve, t.clock
    memory, link = t.memory, t.link
    rows = [("part", f"{part.name}: {counts(part)}", part.source)] if part is not None else []
    rows += [("reserve", counts(kept), kept.source)] if kept != type(kept)() else []
    rows += [("for plans", counts(t), "the part less the reserve" if part is not None else "")]
    rows += [("clock", f"{amount(clock.mhz)} MHz, {clock.evidence}", clock.source)]
    ports = f"{t.ports} of {t.bus_bytes} bytes, {t.timing}"
    rows += [("memory ports", ports + (f"; dram: {t.dram}" if t.dram else ""), memory.source)]
    if memory.kind:
        rows += [("memory", f"{size_text(memory.bytes)} {memory.kind}", memory.source)]
    rate = [f"{link.baud:,} baud"] * bool(link.baud) + [f"{link.gbps} Gb/s"] * bool(link.gbps)
    rate += [f"{link.latency_us} µs"] * bool(link.latency_us)
    rows += [("link", " ".join([link.kind, *rate]), link.source)] if link.kind else []
    if t.power is not None:
        watts = f"{amount(t.power.idle_w)} W idle, {amount(t.power.max_w)} W at most"
        rows += [("power", watts, t.power.source)]
    rows += [("price", t.price, "")] if t.price else []
    if (board := t.board) is not None:
        facts = (board.package, board.speed, f"{amount(board.oscillator_mhz)} MHz oscillator")
        rows += [("board", ", ".join(filter(None, (*facts, board.status))), "")]
    columns = (Column("", whole=True), Column(t.name), Column("source"))
    return Grid(columns, tuple(rows), t.title)


def targets_grid(width: int) -> Grid:
    """Return all targets with what they have, for a terminal of `width` columns."""
    from penstock.boards.catalogue import targets
    from penstock.report.words import amount

    beside, rows, known = width >= 136, [], targets()
    for t in known.values():
        numbers = (t.clock_mhz, t.ports, round(t.bandwidth / 1e9, 2), t.lut, t.ff, t.dsp, t.bram)
        cells = (t.name, *map(amount, numbers))
        rows.append((*cells, t.title) if beside else cells)
    longest = max(map(len, known))
    titles = "\n".join(f" {t.name:<{longest}}  {t.title}" for t in known.values())
    names = ("MHz", "ports", "GB/s", "LUT", "FF", "DSP", "BRAM")
    columns = [Column("target", whole=True)]
    columns += [Column(name, right=True, whole=True) for name in names]
    columns += [Column("what it is")] if beside else []
    return Grid(tuple(columns), tuple(rows), caption="" if beside else titles)


COMMANDS = (
    Command("explain", _explain, [click.Argument(("code",), metavar="CODE", shell_complete=codes)]),
    Command(
        "targets",
        _targets,
        [
            click.Argument(
                ("name",), metavar="[NAME]", required=False, shell_complete=targets_called
            ),
            click.Option(("--json", "as_json"), is_flag=True, help="Print records as JSON."),
        ],
    ),
)
