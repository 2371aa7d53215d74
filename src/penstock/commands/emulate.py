"""`penstock emulate`."""

from __future__ import annotations

import threading

import click

from penstock.commandline import Command
from penstock.options import Count, Once
from penstock.state import State

__all__ = ["COMMANDS"]


@click.pass_obj
def _emulate(state: State, folder: str, link: str, port: int) -> None:
    """Run the device of a design in simulation behind a socket of this machine.

    DIR is what `build` or `compile` wrote. Programs open it as they open a board:
    penstock.open("udp:127.0.0.1:PORT"). It ends with Ctrl-C.
    """
    from penstock.api import opened
    from penstock.devices import generated
    from penstock.host.device import emulated

    described, manifest = opened(folder)
    source = generated(described, manifest.get("board", {}), link)
    with emulated(source, port) as taken:
        # a line of its own, so that a program that starts it can read the port
        print(f"{folder} on {link}:127.0.0.1:{taken}", flush=True)
        threading.Event().wait()


COMMANDS = (
    Command(
        "emulate",
        callback=_emulate,
        params=[
            click.Argument(("folder",), metavar="DIR"),
            Once(
                ("--link",),
                type=click.Choice(["udp"]),
                default=["udp"],
                help="What joins host and device.  [default: udp]",
            ),
            Once(
                ("--port",),
                type=Count(0, 1 << 16),
                default=[5004],
                metavar="N",
                help="Port of 127.0.0.1; 0 takes a free one.  [default: 5004]",
            ),
        ],
        help=_emulate.__doc__,
    ),
)
