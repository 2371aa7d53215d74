"""`penstock keeper`: who watches over a map's state from another machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from penstock.cli.state import State

from .ended import PEM, check_named, refused, run_ended

if TYPE_CHECKING:
    import ssl


class _Watched(NamedTuple):
    """Where a map is, and the files of its keeper."""

    host: str
    port: int
    key: str
    receipt: str
    tls: ssl.SSLContext | None
    server_name: str | None


@click.pass_obj
def keeper(state: State, **values: Any) -> None:
    """Watch over a map's state from another machine.

    Each second the keeper shows the device its receipt of what it saw last: the device says whether its map
    is still that one, and tells clients without a receipt of their own that it was confirmed. It ends with
    an error once the map was rolled back, and with Ctrl-C. Where it reaches no server it says so once, and
    tries again. map.json lies beside its key.
    """
    from penstock.host.omap.client import NotAllowed
    from penstock.host.omap.frames import MessageChanged
    from penstock.host.omap.keyfiles import KeyFileError
    from penstock.host.omap.receipts import ReceiptError, RolledBack

    check_named(receipt=values["receipt"])
    host, port = _place(values["place"])
    tls = _tls(values["certificate"], values["server_name"])
    key = values["key"]
    hints: dict[type[Exception], str] = {
        RolledBack: "ask who runs the server; its latest files bring back what is missing",
        MessageChanged: "who is between keeper and device changes messages, or the server does",
        NotAllowed: "name keeper.json of this map",
    }
    try:
        _check_role(key)
        watched = _Watched(host, port, key, values["receipt"], tls, values["server_name"])
        run_ended(_watch(state, watched, once=values["once"]))
    except (RolledBack, MessageChanged, NotAllowed, ReceiptError, KeyFileError) as problem:
        raise refused(str(problem), hints.get(type(problem), "name other files")) from None


def _place(text: str) -> tuple[str, int]:
    """Return host and port; an address of IPv6 stands in brackets."""
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or (":" in bare and bare == host) or not (port.isascii() and port.isdecimal()):
        raise refused(f"{text} is no HOST:PORT", "as in localhost:7700 or [::1]:7700")
    if not 0 < int(port) < 1 << 16:
        raise refused(f"{text}: a port is from 1 to 65535", "penstock serve prints its own")
    return bare, int(port)


def _tls(certificate: str | None, server_name: str | None) -> ssl.SSLContext | None:
    """Return the outer channel's TLS, None without a certificate."""
    import ssl

    if certificate is None:
        if server_name is not None:
            raise refused("--server-name is for TLS", "add --certificate PEM")
        return None
    PEM.data(certificate)
    with PEM.parsing(certificate):
        return ssl.create_default_context(cafile=certificate)


def _check_role(key: str) -> None:
    """Refuse another role's key before anything is asked. Raises KeyFileError."""
    from penstock.host.omap.keyfiles import KeyFileError, read_map, read_role
    from penstock.models.omap.vault import Role

    role, _ = read_role(key, read_map(_public(key)))
    if role is not Role.KEEPER:
        raise KeyFileError(f"{key} is a {role.value}'s key; a keeper has keeper.json")


def _public(key: str) -> Path:
    return Path(key).parent / "map.json"


async def _watch(state: State, watched: _Watched, *, once: bool) -> None:
    """Present the receipt again and again, in one session after another."""
    import asyncio

    from penstock.host.omap.client import AsyncMap, ConnectionLost, SessionMoved
    from penstock.host.omap.frames import Refused
    from penstock.models.omap.errors import MapStopped

    files: dict[str, Any] = {
        "role": watched.key,
        "receipt": watched.receipt,
        "tls": watched.tls,
        "server_name": watched.server_name,
    }
    place = watched.host, watched.port, _public(watched.key)
    reason = ""  # why nothing is known of the map, where that is so
    while True:
        try:
            async with await AsyncMap.connect(*place, **files) as box:
                if reason:
                    state.err.print("the map answers again", soft_wrap=True)
                reason = ""
                state.out.print(f"the map is as it was, or newer: serial {box.serial}")
                while not once:
                    await asyncio.sleep(1)
                    await box.present()
            return
        except (ConnectionLost, SessionMoved, MapStopped, Refused) as problem:
            if once:
                raise refused(str(problem), "nothing is known of the map") from None
            if str(problem) != reason:
                reason = str(problem)
                state.err.print(f"{reason}; trying again each second", soft_wrap=True)
            await asyncio.sleep(1)
