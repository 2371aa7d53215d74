"""`penstock emulate`."""

import threading
from collections.abc import Callable
from contextlib import ExitStack

import click

from penstock.cli.commandline import Command
from penstock.engines.options import TRUST, Count, IPAddress, Once
from penstock.errors import Conflict


def _emulate(
    folder: str,
    link: str,
    port: int,
    tap: str | None,
    ip_address: bytes | None,
    trust: bool,
) -> None:
    """Run the device of a design in simulation behind a socket of this machine.

    DIR is what `build` or `compile` wrote. Programs open it as they open a board:
    penstock.open("udp:127.0.0.1:PORT"). With --tap it has Ethernet, and the network of this
    machine reaches it at its address. It ends with Ctrl-C.
    """
    from penstock.api import opened
    from penstock.host.device.emulation import emulated, tapped
    from penstock.runs.devices import generated

    if (tap is None) != (ip_address is None):
        hint = "--tap tap0 --ip-address 10.0.0.9, for one"
        raise Conflict("--tap and --ip-address go together", hint)
    described, manifest = opened(folder, trust)
    source = generated(described, manifest.get("board", {}), link, address=ip_address)
    with ExitStack() as device:
        wait: Callable[[], object] = threading.Event().wait
        if tap is not None:
            wait = device.enter_context(tapped(source, tap))
            place = f"{tap}:{'.'.join(map(str, ip_address or b''))}"
        else:
            place = f"127.0.0.1:{device.enter_context(emulated(source, port))}"
        if manifest.get("board", {}).get("memory") == "SDRAM":
            click.echo(f"{folder}: 256 KB of block RAM stand for the board's SDRAM", err=True)
        # a line of its own, so that a program that starts it can read the port
        print(f"{folder} on {link}:{place}", flush=True)
        wait()


COMMANDS = (
    Command(
        "emulate",
        _emulate,
        [
            click.Argument(("folder",), metavar="DIR"),
            Once(
                ("--link",),
                type=click.Choice(["udp"]),
                default=["udp"],
                help="What joins host and device.  [default: udp]",
            ),
            Once(
                ("--port",),
                type=Count(0, (1 << 16) - 1),
                default=[5004],
                metavar="N",
                help="Port of 127.0.0.1; 0 takes a free one.  [default: 5004]",
            ),
            Once(
                ("--tap",),
                metavar="NAME",
                help="A TAP interface of this machine in place of the socket.",
            ),
            Once(
                ("--ip-address",),
                type=IPAddress(),
                metavar="A",
                help="The device's IPv4 address, with --tap.",
            ),
            TRUST(),
        ],
    ),
)
