"""`penstock keys` and `penstock serve`: a map that can be tried with real requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.commandline import KERNEL, Command
from penstock.options import Count, Once
from penstock.state import State

if TYPE_CHECKING:
    import ssl

    from penstock.host.omap.devices import DeviceCarrier

    from .design import MapDesign

__all__ = ["COMMANDS"]

_DEVICES = ("device", "rtl", "netlist")


def _refused(message: str, hint: str) -> Exception:
    from penstock.errors import Conflict

    return Conflict(message, hint)


def _design(state: State, command: str) -> MapDesign:
    from penstock.commands.job import Job

    from .design import MapDesign

    job = Job.begin(state, command)
    design = job.compile()
    if not isinstance(design, MapDesign):
        raise _refused(
            f"{job.kernel.name} is not an oblivious map", "name a file with ps.ObliviousMap"
        )
    return design


@click.pass_obj
def _keys(state: State, **values: Any) -> None:
    """Make the keys of an oblivious map, one file for each who needs some.

    DIR/device.json has the device's secret, from which all keys follow. map.json is public: with it a
    client knows the device, and may read. writer.json is for clients that write, keeper.json for who
    watches over the map's state.
    """
    out = state.begin("keys", values)["out"]
    from penstock.host.omap.keyfiles import write_keys

    try:
        paths = write_keys(out, _design(state, "keys").plan)
    except OSError as problem:
        place = problem.filename or out
        there = isinstance(problem, FileExistsError)
        raise _refused(
            f"{place}: {problem.strerror}",
            "name a folder in which there are no keys" if there else "no file was written",
        ) from None
    for path in paths:
        state.out.print(str(path), soft_wrap=True)


@click.pass_obj
def _serve(state: State, **values: Any) -> None:
    """Serve an oblivious map to clients whose sessions end in the device (penstock.host.omap.client).

    The device runs in a process of its own, which alone reads DIR/device.json; the server hands
    messages on, and reads none of them. It ends with Ctrl-C.
    """
    rest = state.begin("serve", values)
    import asyncio

    from penstock.host.omap.process import DeviceLost, DeviceProcess

    design = _design(state, "serve")
    keys = Path(rest["keys"])
    program = _program(design, rest["device"], rest["family"])
    tls = _tls(rest["certificate"], rest["private_key"])
    try:
        device = DeviceProcess(design.plan, keys / "device.json", *program)
    except DeviceLost as problem:
        raise _refused(
            str(problem), f"penstock keys {state.asked.kernel} --out DIR makes keys"
        ) from None
    with device:
        asyncio.run(_served(device, rest["host"], rest["port"], tls))


def _program(design: MapDesign, device: str, family: str | None) -> tuple[Any, ...]:
    """Return the device's program and its arguments. Raises KernelError for a netlist that cannot be
    simulated."""
    if family is not None and device != "netlist":
        raise _refused("--family is for netlists", "leave it out, or add --device netlist")
    if device == "device":
        return ()
    from penstock.netlists import family_of

    arguments = [device]
    if device == "netlist":
        arguments.append(family_of(design.target, family))
    return f"{__package__}.process", arguments


def _tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return the outer channel's TLS, None without a certificate."""
    import ssl

    if (certificate is None) != (key is None):
        raise _refused(
            "a certificate goes with its private key", "give both, --certificate and --private-key"
        )
    if certificate is None or key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as problem:
        what = getattr(problem, "reason", None) or problem.strerror or str(problem)
        raise _refused(
            f"{certificate} and {key} cannot be used: {what}", "both are PEM files"
        ) from None
    return context


async def _served(device: DeviceCarrier, host: str, port: int, tls: ssl.SSLContext | None) -> None:
    from penstock.host.omap.server import MapServer

    async with MapServer(device) as server:
        try:
            await server.listen(host, port, tls)
        except OSError as problem:
            raise _refused(
                f"{host}:{port}: {problem.strerror}", "--port 0 takes one that is free"
            ) from None
        outer = "TLS" if tls is not None else "no TLS: messages are sealed, connections are not"
        # a line of its own, so that a program that starts the server can read the port
        print(f"serving on {host}:{server.port} ({outer})", flush=True)
        await server.serve()


def _serving() -> list[click.Parameter]:
    return [
        Once(
            ("--keys",),
            required=True,
            metavar="DIR",
            help="Folder of device.json (penstock keys).",
        ),
        click.Option(("--host",), default="127.0.0.1", metavar="NAME", help="Where to listen."),
        click.Option(
            ("--port",),
            type=Count(0, 65535),
            default=0,
            metavar="N",
            help="Port to listen on; 0 is one that is free.  [default: 0]",
        ),
        click.Option(
            ("--device",),
            type=click.Choice(_DEVICES),
            default="device",
            help="What carries requests out: the golden model, or simulated hardware.",
        ),
        Once(
            ("--family",),
            metavar="F",
            help="With --device netlist: whose cells: ecp5, ice40, gowin.  [default: the target's]",
        ),
        Once(("--certificate",), metavar="PEM", help="The server's certificate, for TLS."),
        Once(("--private-key",), metavar="PEM", help="Its private key."),
        Once(("--target",), metavar="T", help="What to plan for.  [default: u55c]"),
    ]


COMMANDS = (
    Command(
        "keys",
        callback=_keys,
        params=[
            *KERNEL(),
            Once(("--out",), required=True, metavar="DIR", help="Folder for the files."),
            Once(("--target",), metavar="T", help="As for `serve`.  [default: u55c]"),
        ],
        help=_keys.__doc__,
    ),
    Command(
        "serve",
        callback=_serve,
        params=[*KERNEL(), *_serving()],
        help=_serve.__doc__,
    ),
)
