"""`penstock plugins`."""

import json
from pathlib import Path

import click

from penstock.cli.commandline import Command
from penstock.cli.state import State
from penstock.engines.options import Once
from penstock.models.plugins import Offer, offers
from penstock.report.parts import Column, Grid


def _all() -> list[Offer]:
    """Return what distributions offer of everything that they may."""
    from penstock.boards.catalogue import targets
    from penstock.dsl.dialect import dialects
    from penstock.engines.discovery import engines, papers
    from penstock.export.flows import flows
    from penstock.runs.devices import transports

    for loaded in (dialects, engines, targets, transports, flows, papers):
        loaded()
    return offers()


@click.pass_obj
def _plugins(state: State, as_json: bool, stub: str | None) -> None:
    """List what other packages add: engines, dialects, targets, boards, transports, exports, papers; and why one is left out."""
    offers = _all()
    if stub is not None:
        from penstock.output import write_folder
        from penstock.stub import files

        folder = Path(stub) / "penstock-stubs"
        folder.parent.mkdir(exist_ok=True)
        state.say(f"written: {write_folder(folder, files())}")
        return
    if as_json:
        click.echo(json.dumps([vars(offer) for offer in offers], indent=1))
        return
    from penstock.report.terminal import show

    names = ("kind", "name", "of", "at", "used")
    columns = tuple(Column(name, whole=name != "used") for name in names)
    rows = tuple(
        (
            offer.kind,
            offer.name,
            offer.distribution,
            offer.place,
            f"no: {offer.why}" if offer.why else "yes",
        )
        for offer in offers
    )
    if rows:
        show(state.out, (Grid(columns, rows),))
    else:
        click.echo("no installed package adds anything to Penstock")


COMMANDS = (
    Command(
        "plugins",
        _plugins,
        [
            click.Option(("--json", "as_json"), is_flag=True, help="Print them as JSON."),
            Once(
                ("--stub",),
                metavar="DIR",
                help="Write DIR/penstock-stubs, which tells type checkers their names in Penstock.",
            ),
        ],
    ),
)
