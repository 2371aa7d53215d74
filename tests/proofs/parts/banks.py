"""Units beside the banks: what their small kernel does not bring in, for the netlist's proof."""

from __future__ import annotations

from collections.abc import Callable

from amaranth.lib import wiring
from harness import Proof

from penstock.hdl.pim.float16 import Float16Lane, Float16Results

PROOFS: tuple[Proof, ...] = ()

COMPONENTS: dict[str, Callable[[], wiring.Component]] = {
    "Float16Lane": Float16Lane,
    "Float16Results": Float16Results,
}
