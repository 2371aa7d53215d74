"""`penstock keys`, `serve` and `keeper`: a map that can be tried with real requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.commandline import KERNEL, Command
from penstock.cli.state import State
from penstock.engines.options import Count, Once

from .ended import PEM, check_named, refused, run_ended
from .keeper import keeper

if TYPE_CHECKING:
    import ssl

    from penstock.host.omap.devices import DeviceCarrier
    from penstock.host.omap.kept import KeptMap
    from penstock.host.omap.process import DeviceProcess

    from .design import MapDesign

_SEEN = "who owns this machine can read the map in its memory"
_STAND_IN = f"a stand-in for hardware: the time of its answers may tell what is asked, and {_SEEN}"
_SIMULATED = f"simulated hardware: its cycles do not depend on what is asked, but {_SEEN}"
#: what carries requests out, and what it is no guarantee of (docs/explanation/omap_threats.md)
_DEVICES = {"device": _STAND_IN, "native": _STAND_IN, "rtl": _SIMULATED, "netlist": _SIMULATED}


def _design(state: State, command: str) -> MapDesign:
    from penstock.commands.job import Job

    from .design import MapDesign

    job = Job.begin(state, command)
    design = job.compile()
    if not isinstance(design, MapDesign):
        raise refused(
            f"{job.kernel.name} is not an oblivious map", "name a file with ps.ObliviousMap"
        )
    return design


@click.pass_obj
def _keys(state: State, **values: Any) -> None:
    """Make the keys of an oblivious map, one file for each who needs some.

    DIR/device.json has the device's secret, from which all keys follow. map.json is public: with it a
    client knows the device, and may read. writer.json is for clients that write, keeper.json for who
    watches over the map's state. With --renew the files in DIR are replaced: what has them stays the same
    device, and goes on with the map; older copies of map.json, writer.json and keeper.json serve no more.
    """
    options = state.begin("keys", values)
    out = options["out"]
    check_named(out=out)
    from penstock.host.omap.keyfiles import KeyFileError, renew_keys, write_keys

    try:
        paths = (renew_keys if options["renew"] else write_keys)(out, _design(state, "keys").plan)
    except KeyFileError as problem:
        hint = problem.hint or "name the folder of the keys that are to be renewed"
        raise refused(str(problem), hint) from None
    except OSError as problem:
        place = problem.filename or out
        exists = isinstance(problem, FileExistsError)
        raise refused(
            f"{place}: {problem.strerror}",
            "name a folder in which there are no keys" if exists else "no file was written",
        ) from None
    for path in paths:
        state.out.print(str(path), soft_wrap=True)
    if options["renew"]:
        state.out.print("a server takes them when it starts: end one that runs, and start it again")


@click.pass_obj
def _serve(state: State, /, **values: Any) -> None:
    """Serve an oblivious map to clients whose sessions end in the device (penstock.host.omap.client).

    The device runs in a process of its own, which alone reads DIR/device.json; the server hands
    messages on, and reads none of them. It ends with Ctrl-C. With --state the map outlives it: what a
    client had an answer to is there again when a server starts on the same folder.
    """
    rest = state.begin("serve", values)

    from penstock.host.omap.process import DeviceLost, DeviceProcess
    from penstock.host.omap.state import StateError

    check_named(keys=rest["keys"], state=rest["state"], host=rest["host"])
    design = _design(state, "serve")
    keys = Path(rest["keys"])
    program = _program(design, rest["device"], rest["family"], rest["state"] is not None)
    tls = _tls(rest["certificate"], rest["private_key"])
    _check_durable(rest["durable"], rest["state"])
    try:
        device = DeviceProcess(design.plan, keys / "device.json", *program)
    except DeviceLost as problem:
        raise refused(
            str(problem), f"penstock keys {state.asked.kernel} --out DIR makes keys"
        ) from None
    place = rest["host"], rest["port"], tls, rest["device"]
    with device:
        if rest["state"] is None:
            run_ended(_served(device, *place))
        else:
            kept = _kept(device, keys / "map.json", rest["state"], rest["durable"] or "log")
            try:
                with kept:
                    run_ended(_served(kept, *place))
            except StateError as problem:
                raise refused(str(problem), "make room on the disk; see what ended first") from None


def _check_durable(durable: str | None, folder: str | None) -> None:
    if durable is not None and folder is None:
        raise refused("--durable is for maps that outlive the server", "add --state DIR")


def _kept(device: DeviceProcess, known: Path, folder: str, durable: str) -> KeptMap:
    """Return the device with the map of a folder of state."""
    from penstock.host.omap.kept import KeptMap
    from penstock.host.omap.keyfiles import KeyFileError, read_map
    from penstock.host.omap.state import MapState, StateError
    from penstock.models.omap.errors import MapStopped

    try:
        return KeptMap(device, MapState(folder, read_map(known), device.config, durable=durable))
    except OSError as problem:
        raise refused(f"{folder}: {problem.strerror}", "the server writes there") from None
    except KeyFileError as problem:
        raise refused(str(problem), "map.json lies beside device.json") from None
    except (StateError, MapStopped) as problem:
        raise refused(
            str(problem), "nothing was changed; name another folder, or put back what was there"
        ) from None


def _program(design: MapDesign, device: str, family: str | None, state: bool) -> tuple[Any, ...]:
    """Return the device's program and its arguments. Raises KernelError for a netlist that cannot be
    made or simulated."""
    if family is not None and device != "netlist":
        raise refused("--family is for netlists", "leave it out, or add --device netlist")
    if device == "device":
        return ()
    from penstock.runs.netlists import family_of, yosys

    arguments = [device, str(int(state))]
    if device == "netlist":
        yosys("--device")
        arguments.append(family_of(design.target, family, "--device"))
    return f"{__package__}.process", arguments


def _tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return the outer channel's TLS, None without a certificate."""
    import ssl

    if (certificate is None) != (key is None):
        raise refused(
            "a certificate goes with its private key", "give both, --certificate and --private-key"
        )
    if certificate is None or key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    for file in (certificate, key):
        PEM.data(file)
    with PEM.parsing(f"one of {certificate} and {key}"):
        # a password: OpenSSL asks the terminal for one that is not given
        context.load_cert_chain(certificate, key, password="")
    return context


async def _served(
    device: DeviceCarrier, host: str, port: int, tls: ssl.SSLContext | None, kind: str
) -> None:
    import socket

    from penstock.host.omap.server import MapServer

    async with MapServer(device) as server:
        try:
            await server.listen(host, port, tls)
        except (OSError, UnicodeError) as problem:  # UnicodeError: a label that no name may have
            unknown = isinstance(problem, (socket.gaierror, UnicodeError))
            why = problem.strerror if isinstance(problem, OSError) else "no machine's name"
            hint = "name this machine, or one of its addresses"
            raise refused(
                f"{host}:{port}: {why}",
                hint if unknown else "--port 0 takes one that is free",
            ) from None
        outer = "TLS" if tls is not None else "no TLS: messages are sealed, connections are not"
        click.echo(f"--device {kind} is {_DEVICES[kind]}", err=True)
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
            type=click.Choice(tuple(_DEVICES)),
            default="device",
            help="What carries requests out: the golden model, the same in C++, or simulated hardware.",
        ),
        Once(
            ("--family",),
            metavar="F",
            help="With --device netlist: whose cells: ecp5, ice40, gowin.  [default: the target's]",
        ),
        Once(
            ("--state",),
            metavar="DIR",
            help="Folder in which the map outlives the server, sealed by the device.",
        ),
        click.Option(
            ("--durable",),
            type=click.Choice(("log", "snapshot")),
            help="With --state: what is on disk before an answer leaves: its record, or the last snapshot alone.  [default: log]",
        ),
        Once(("--certificate",), metavar="PEM", help="The server's certificate, for TLS."),
        Once(("--private-key",), metavar="PEM", help="Its private key."),
        Once(("--target",), metavar="T", help="What to plan for.  [default: u55c]"),
    ]


COMMANDS = (
    Command(
        "keys",
        _keys,
        [
            *KERNEL(),
            Once(("--out",), required=True, metavar="DIR", help="Folder for the files."),
            click.Option(("--renew",), is_flag=True, help="Replace the keys that are there."),
            Once(("--target",), metavar="T", help="As for `serve`.  [default: u55c]"),
        ],
    ),
    Command(
        "keeper",
        keeper,
        [
            click.Argument(("place",), metavar="HOST:PORT"),
            click.Argument(("key",), metavar="KEEPER.JSON"),
            Once(("--receipt",), required=True, metavar="FILE", help="What it saw last."),
            click.Option(("--once",), is_flag=True, help="End after one look."),
            Once(
                ("--certificate",),
                metavar="PEM",
                help="The server's certificate, or that of who signed it, for TLS.",
            ),
            Once(
                ("--server-name",),
                metavar="NAME",
                help="With --certificate: the name in it.  [default: HOST]",
            ),
        ],
    ),
    Command("serve", _serve, [*KERNEL(), *_serving()]),
)
