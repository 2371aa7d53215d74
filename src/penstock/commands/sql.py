"""`penstock sql`."""

import click

from penstock.cli.commandline import Command
from penstock.engines.options import Once

_DSN = Once(
    ("--dsn",),
    metavar="URI",
    required=True,
    help="The server, as postgresql://user@host/database; a superuser.",
)
_FORCE = click.Option(
    ("--force",),
    is_flag=True,
    help="Install also where others can write the packages that the server would run.",
)


@click.group("sql")
def _sql() -> None:
    """Functions in a PostgreSQL server, on this machine, with MADlib's names: linregr_train, logregr_train, svm_classification, and more."""


@click.pass_obj
def _install(state: object, dsn: str, force: bool) -> None:
    """Make the schema penstock with its functions. They run this interpreter."""
    from penstock.sql.install import install

    click.echo(f"schema penstock is there: {install(dsn, force=force)}")


@click.pass_obj
def _upgrade(state: object, dsn: str, force: bool) -> None:
    """Make the functions anew, for this interpreter."""
    from penstock.sql.install import install

    click.echo(f"schema penstock is there: {install(dsn, upgrade=True, force=force)}")


@click.pass_obj
def _uninstall(state: object, dsn: str) -> None:
    """Take the functions and the schema out of the server."""
    from penstock.sql.install import uninstall

    uninstall(dsn)
    click.echo("schema penstock is gone")


for _command in (
    Command("install", _install, [_DSN, _FORCE]),
    Command("upgrade", _upgrade, [_DSN, _FORCE]),
    Command("uninstall", _uninstall, [_DSN]),
):
    _sql.add_command(_command)

COMMANDS = (_sql,)
