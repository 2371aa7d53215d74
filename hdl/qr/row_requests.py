"""Which words a pass over a group's rows asks for, and in which order."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream

from ...models.qr.config import FitPlan
from ...models.qr.shell import ADDRESS_BITS

__all__ = ["RowRequests", "pass_shape", "stride_choice", "strides"]


def strides(bus_bytes):
    """The strides of rows that a bus word holds: `models.qr.layout.row_stride`."""
    return [1 << k for k in range(2, 7) if 1 << k <= bus_bytes]


def stride_choice(length, bus_bytes):
    """Which of `strides` rows of this length take."""
    return sum((length > stride for stride in strides(bus_bytes)[:-1]), 0)


def pass_shape(n_max):
    """A group's rows: where they lie, how many places there are (≥ 1), the window's length."""
    return data.StructLayout({"address": ADDRESS_BITS, "span": 32, "length": range(n_max)})


class RowRequests:
    """Adds the requests of one pass after the other to a module: of each block of 8 · bus_bytes places the word of bits, then the words of rows.

    Rows lie as `models.qr.image.pack_rows` has them, the bits behind all of them. A pass accepted in cycle t offers its first request in t + 1; the next pass
    is accepted when the last request has been taken. Golden: `models.qr.layout.pass_requests`.

    Attributes
    ----------
    i : stream.Signature(pass_shape(n_max))
    o : stream.Signature({address, beats, bits, last})
    """

    def __init__(self, m: Module, config: FitPlan, name: str):
        asked = data.StructLayout({"address": ADDRESS_BITS, "beats": 24, "bits": 1, "last": 1})
        self.i = stream.Signature(pass_shape(config.n_max)).create(path=(name, "i"))
        self.o = stream.Signature(asked).create(path=(name, "o"))
        bus = config.bus_bytes
        shift, block = bus.bit_length() - 1, 8 * bus
        choices = strides(bus)
        active, of_rows = Signal(), Signal()
        bits_at, rows_at = (
            Signal(ADDRESS_BITS - shift, reset_less=True),
            Signal(ADDRESS_BITS - shift, reset_less=True),
        )  # in bus words
        left = Signal(32, reset_less=True)
        choice = Signal(range(max(len(choices), 2)))
        here = Signal(range(block + 1))
        span = Array(
            [
                (self.i.p.span + (bus // stride - 1)) >> (bus // stride).bit_length() - 1
                for stride in choices
            ]
        )
        beats = Array(
            [(here + (bus // stride - 1)) >> (bus // stride).bit_length() - 1 for stride in choices]
        )
        whole = Array([8 * stride for stride in choices])
        m.d.comb += [
            self.i.ready.eq(~active),
            self.o.valid.eq(active),
            here.eq(Mux(left < block, left, block)),
            self.o.p.bits.eq(~of_rows),
            self.o.p.last.eq(of_rows & (left <= block)),
            self.o.p.beats.eq(Mux(of_rows, beats[choice], 1)),
            self.o.p.address.eq(Mux(of_rows, rows_at, bits_at) << shift),
        ]
        with m.If(self.i.valid & self.i.ready):
            first = self.i.p.address >> shift
            kind = stride_choice(self.i.p.length, bus)
            m.d.sync += [
                active.eq(1),
                of_rows.eq(0),
                rows_at.eq(first),
                bits_at.eq(first + span[kind]),
                left.eq(self.i.p.span),
                choice.eq(kind),
            ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += of_rows.eq(~of_rows)
            with m.If(of_rows):
                m.d.sync += [rows_at.eq(rows_at + whole[choice]), left.eq(left - here)]
                with m.If(left <= block):
                    m.d.sync += active.eq(0)
            with m.Else():
                m.d.sync += bits_at.eq(bits_at + 1)
