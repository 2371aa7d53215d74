"""Descriptors and memos' heads: their fields, and the first thing wrong with them."""

from amaranth.hdl import Const, Mux, Signal, signed
from amaranth.lib import data

from ...models.errors import ErrorCode
from ...models.qr.descriptor import DESCRIPTOR, HEAD, SIGNED


def _shape(fields):
    return data.StructLayout(
        {name: signed(8 * size) if name == SIGNED else 8 * size for name, size in fields.items()}
    )


descriptor_shape, head_shape = _shape(DESCRIPTOR), _shape(HEAD)


def checked(m, faults):
    """The code of the first of `models.qr.descriptor`'s faults that holds, a cycle later."""
    code = Signal(8)
    m.d.sync += code.eq(first_code((holds, fault.value) for holds, fault in faults))
    return code


def first_code(faults):
    """The code of the first condition that holds, else OK."""
    code = Const(ErrorCode.OK.value, 8)
    for holds, fault in reversed(list(faults)):
        code = Mux(holds, fault, code)
    return code[:8]
