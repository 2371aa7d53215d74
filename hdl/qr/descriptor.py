"""Descriptors and memos' heads: their fields, and the first thing wrong with them."""

from amaranth.hdl import Const, Module, Mux, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...models.errors import ErrorCode
from ...models.qr.config import FitPlan
from ...models.qr.descriptor import DESCRIPTOR, HEAD, SIGNED, descriptor_faults, head_faults

__all__ = ["JobCheck", "descriptor_shape", "first_code", "head_shape"]


def _shape(fields):
    return data.StructLayout(
        {name: signed(8 * size) if name == SIGNED else 8 * size for name, size in fields.items()}
    )


descriptor_shape, head_shape = _shape(DESCRIPTOR), _shape(HEAD)


class JobCheck(wiring.Component):
    """What a job's descriptor and its memo's head say against each other and the engine. Latency 1, initiation interval 1.

    Golden: `models.qr.descriptor.descriptor_faults` and `head_faults`.

    Members
    -------
    descriptor : In(descriptor_shape)
    head : In(head_shape)
        That of a full job (flag 0 of the descriptor) is there for its offsets: its epoch and rows are not looked at.
    descriptor_code, head_code : Out(8)
        `models.errors.ErrorCode` of the inputs one cycle before. The head's means something where the descriptor's is OK.
    """

    def __init__(self, config: FitPlan):
        self.config = config
        super().__init__(
            {
                "descriptor": In(descriptor_shape),
                "head": In(head_shape),
                "descriptor_code": Out(8),
                "head_code": Out(8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        for code, faults in (
            (self.descriptor_code, descriptor_faults(self.descriptor, self.config)),
            (self.head_code, head_faults(self.head, self.descriptor, self.config)),
        ):
            m.d.sync += code.eq(first_code((holds, fault.value) for holds, fault in faults))
        return m


def first_code(faults):
    """The code of the first condition that holds, else OK."""
    code = Const(ErrorCode.OK.value, 8)
    for holds, fault in reversed(list(faults)):
        code = Mux(holds, fault, code)
    return code[:8]
