"""Functions in a PostgreSQL server: into it, anew, and out of it."""

import os
import shutil
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from penstock.errors import RunWarning
from penstock.host.sources.errors import server_error
from penstock.host.sources.postgres.names import settle

_HERE = Path(__file__).parent
#: whether the schema is a superuser's: NULL where there is none
_THERE = """
SELECT (SELECT r.rolsuper FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'penstock')
"""
_OURS = """
SELECT pg_catalog.format('DROP FUNCTION %s RESTRICT', p.oid::pg_catalog.regprocedure)
FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'penstock'::pg_catalog.regnamespace
"""
_STARTED = "penstock.sql.worker"


def _commands() -> Iterator[list[str]]:
    """Give what may start a worker: this interpreter, and, where the server's user cannot execute it (one in a home, say), the system's
    of the same version with this one's packages."""
    yield [sys.executable, "-I", "-B", "-m", _STARTED]
    major, minor = sys.version_info[:2]
    other = shutil.which(f"python{major}.{minor}", path=os.defpath)
    if other is not None:
        paths = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        text = f"import site; [site.addsitedir(p) for p in {list(dict.fromkeys(paths))}]; from {_STARTED} import main; main()"
        yield [other, "-I", "-B", "-c", text]


def _text(command: list[str]) -> str:
    """Return the statements that make the functions."""
    server = (_HERE / "server.py").read_text()
    text = (_HERE / "functions.sql").read_text()
    return Template(text).safe_substitute(server=server, command=repr(command))


@contextmanager
def _transaction(dsn: str) -> Iterator[Any]:
    """Give a connection whose transaction ends with the block: with ROLLBACK where anything is raised."""
    try:
        import psycopg
    except ImportError as problem:
        hint = "pip install 'penstock[postgres]'"
        raise server_error("a PostgreSQL server needs the package psycopg", hint) from problem
    try:
        with psycopg.connect(dsn, connect_timeout=10, client_encoding="utf8") as connection:
            settle(connection)
            yield connection
    except (psycopg.Error, UnicodeEncodeError) as problem:
        diag = getattr(problem, "diag", psycopg.Error().diag)
        what = diag.message_primary or str(problem).strip().partition("\n")[0]
        detail = f" ({diag.message_detail.partition(chr(10))[0]})" if diag.message_detail else ""
        hint = (
            diag.message_hint
            or "nothing was changed; the functions need a superuser, and PL/Python 3 (Debian: postgresql-plpython3-15)"
        )
        raise server_error(f"the server refused: {what}{detail}", hint) from problem


@cache
def _changeable() -> str:
    """Return why others could change what a server would run of this interpreter and its packages; "" where they cannot."""
    from penstock.hdl.environment import changeable
    from penstock.sql import worker

    assert worker  # it has imported the modules whose places these are
    places = sys.path[not sys.flags.safe_path :]  # the first is of this process alone
    for each in [*sys.modules.values()]:
        places += [getattr(each, "__file__", None) or "", *getattr(each, "__path__", ())]
    programs = [command[0] for command in _commands()]
    settings = [str(above / "pyvenv.cfg") for above in Path(sys.executable).parents[:2]]
    return changeable(map(Path, dict.fromkeys(filter(None, (*places, *programs, *settings)))))


def _check(force: bool) -> None:
    """Raise SourceError where others could change what the server would run; warn of it where that is forced."""
    if why := _changeable():
        what = f"{why}, and the server runs what is installed there"
        if not force:
            raise server_error(
                what,
                "install Penstock where nobody else can write; --force installs the functions all the same",
            )
        warnings.warn(what, RunWarning, stacklevel=3)


def install(dsn: str, *, upgrade: bool = False, force: bool = False) -> str:
    """Make the schema `penstock` with its functions, or make the functions anew; return the version that a worker of the server says.

    Raises SourceError where the schema is there already, or is not (`upgrade`), where the server refuses, and where others can write what it would
    import (`force`: a warning): nothing is changed then.
    """
    _check(force)
    with _transaction(dsn) as connection:
        (by_superuser,) = connection.execute(_THERE).fetchone()
        if by_superuser is False:  # functions in it would be changed by whoever owns them
            what = "the schema penstock belongs to a role that is no superuser"
            raise server_error(what, "DROP SCHEMA penstock, then penstock sql install")
        if by_superuser and not upgrade:
            raise server_error("the server has a schema penstock already", "penstock sql upgrade")
        if upgrade and not by_superuser:
            raise server_error("the server has no schema penstock", "penstock sql install")
        connection.execute("CREATE EXTENSION IF NOT EXISTS plpython3u")
        connection.execute("CREATE SCHEMA IF NOT EXISTS penstock")
        return _made(connection)


def _made(connection: Any) -> str:
    """Make the functions with the first command that the server can start; return what its worker says."""
    import psycopg

    commands = list(_commands())
    for command in commands:
        try:
            with connection.transaction():
                connection.execute(_text(command))
                return str(connection.execute("SELECT penstock.version()").fetchone()[0])
        except psycopg.errors.InvalidParameterValue:
            if command is commands[-1]:
                raise
    raise AssertionError


def uninstall(dsn: str) -> None:
    """Take the functions and the schema out of the server. Raises SourceError where something of its user's depends on them."""
    with _transaction(dsn) as connection:
        if connection.execute(_THERE).fetchone() == (None,):
            raise server_error("the server has no schema penstock", "penstock sql install")
        for (statement,) in connection.execute(_OURS).fetchall():
            connection.execute(statement)
        connection.execute("DROP SCHEMA penstock RESTRICT")
