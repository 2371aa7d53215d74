"""Descriptors and memos' heads: their fields, and the first thing wrong with them."""

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...models.errors import ErrorCode, HardwareCode
from ...models.qr.config import FitPlan
from ...models.qr.descriptor import SPAN_MAX
from ...models.qr.errors import FitError
from ...models.qr.job import Label, Method
from ...models.qr.memo_image import MAGIC
from ...models.qr.normal_equations import ROWS_MAX

__all__ = ["JobCheck", "descriptor_shape", "head_shape"]

#: as `models.qr.image.pack_descriptor` writes it; addresses in bytes
descriptor_shape = data.StructLayout(
    {
        "group": 32,
        "prefix": 16,
        "length": 8,
        "flags": 8,
        "rows": 32,
        "span": 32,
        "epoch": 32,
        "limit": signed(32),
        "inserted": 32,
        "buried": 32,
        "removed": 32,
        "moved": 32,
        "memo": 48,
        "changes": 48,
        "rows_at": 48,
        "result": 48,
    }
)
#: the first 32 bytes of a memo, as `models.qr.memo_image.pack_memo` writes them
head_shape = data.StructLayout(
    {
        "magic": 32,
        "method": 8,
        "target": 8,
        "length": 8,
        "segments": 8,
        "prefix": 16,
        "zero": 16,
        "epoch": 32,
        "rows": 32,
        "live": 32,
        "end": 64,
    }
)


class JobCheck(wiring.Component):
    """What a job's descriptor and its memo's head say against each other and the engine. Latency 1, initiation interval 1.

    Golden: `models.qr.descriptor.check_descriptor` and `check_head`.

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
        d, head, config = self.descriptor, self.head, self.config
        method, target = list(Method).index(config.method), list(Label).index(config.target)
        aligned = Cat(
            address[: (config.bus_bytes - 1).bit_length()]
            for address in (d.memo, d.changes, d.rows_at, d.result)
        )
        contradiction = (
            (d.flags[1:] != method | target << 1)
            | (d.inserted + d.buried > d.rows)
            | (d.inserted + d.moved > d.rows)
        )
        contradiction = contradiction | (
            (d.rows != d.span) if config.target is Label.RANK else (d.rows > d.span)
        )
        contradiction = contradiction | (d.removed > ROWS_MAX) | aligned.any()
        m.d.sync += self.descriptor_code.eq(
            _first(
                ((d.length == 0) | (d.length >= config.n_max), FitError.QR_COLUMNS),
                ((d.rows > ROWS_MAX) | (d.span > SPAN_MAX), FitError.QR_ROWS),
                (contradiction, FitError.QR_DESCRIPTOR),
            )
        )
        strange = (
            (head.magic != MAGIC)
            | (head.method != method)
            | (head.target != target)
            | (head.segments != int(config.incremental))
        )
        strange = strange | head.zero.any() | head.end.any()
        stale = ~d.flags[0] & (
            (head.epoch != d.epoch) | (head.rows + d.inserted != d.rows + d.removed)
        )
        m.d.sync += self.head_code.eq(
            _first(
                (strange | (head.live > head.rows), FitError.QR_MEMO),
                ((head.prefix != d.prefix) | (head.length != d.length), FitError.QR_WINDOW),
                (stale, FitError.QR_MEMO),
            )
        )
        return m


def _first(*found: tuple[Value, HardwareCode]) -> Value:
    """The code of the first condition that holds, else OK."""
    result: Value = Const(ErrorCode.OK.value, 8)
    for condition, code in reversed(found):
        result = Mux(condition, Const(code.value, 8), result)
    return result
