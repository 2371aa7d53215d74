"""A chip that is known by its pins, as a device for `sim.board`."""

from __future__ import annotations

from .cells import LINT, cell_models

__all__ = ["device_top"]


def device_top(chip: str, *, clk: str, rx: str, tx: str, family: str = "ice40") -> str:
    """Return the Verilog of a device (see `sim.board.build`) around that of a module `chip`, whose pins for clock and serial line have these names.

    The chip resets itself after its configuration, so the device's reset goes nowhere; whether a run is under way cannot be seen from outside, so that a device
    at rest is clocked for a little while only, unless the host asks.
    """
    top = [
        "module penstock(input clk, input rst, input rx, output tx, output busy);",
        "    assign busy = 1'b0;",
        f"    chip chip(.{clk}(clk), .{rx}(rx), .{tx}(tx));",
        "endmodule",
    ]
    return "\n".join([LINT, *top, chip, cell_models(family)])
