"""Units beside the banks: what their small kernel does not bring in, for the netlist's proof."""

from __future__ import annotations

from collections.abc import Callable

from amaranth.lib import wiring
from harness import Proof

from penstock.hdl.pim.float16 import Float16Lane, Float16Results
from penstock.hdl.pim.softmax import SoftmaxUnit
from penstock.models.pim.config import PimConfig

PROOFS: tuple[Proof, ...] = ()

COMPONENTS: dict[str, Callable[[], wiring.Component]] = {
    "Float16Lane": Float16Lane,
    "Float16Results": Float16Results,
    "SoftmaxUnit": lambda: SoftmaxUnit(PimConfig(groups=1, banks=2, soft_items=1, soft_parts=1)),
}
