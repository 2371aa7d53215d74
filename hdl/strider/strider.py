"""A Strider: what reads pages, with its tuple buffer: the unit that a port has many of."""

from amaranth.hdl import Module, Mux, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .pipeline import StriderPipeline, program_layout
from .tuples import TupleBuffer, item_bits, units_members


class Strider(wiring.Component):
    """Takes every n-th page of a port with n Striders and keeps its tuples until the collector takes them.

    Parameters
    ----------
    config
        The port's configuration.
    parts
        Gives memories and converters.
    """

    def __init__(self, config, parts):
        self.config = config
        self.parts = parts
        super().__init__(
            {
                # as of `StriderPipeline`
                "word": In(8 * config.bus_bytes),
                "write": In(1),
                "program": In(program_layout(config)),
                "program_length": In(range(config.program_depth + 1)),
                "freed": Out(1),
                # as of `TupleBuffer`
                "ready": Out(1),
                "end": Out(1),
                "error": Out(1),
                "code": Out(8),  # with `error`: what
                "line": Out(13),  # at which line pointer
                "item": Out(item_bits(config)),  # of a value its flat position, counted from 1
                # as of `TupleBuffer`
                "void": Out(1),
                "skipped": Out(1),
                "beat": In(range(config.beats)),
                "read": In(1),
                "take": In(1),
                "lanes": Out(data.ArrayLayout(unsigned(config.format.width), config.lanes)),
                **units_members(config),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.pipeline = pipeline = StriderPipeline(self.config, self.parts)
        m.submodules.buffer = buffer = TupleBuffer(self.config, self.parts)
        for name in ("word", "write", "program", "program_length"):
            m.d.comb += getattr(pipeline, name).eq(getattr(self, name))
        m.d.comb += pipeline.room.eq(buffer.room)
        for name in ("taken", "tag", "window"):
            m.d.comb += getattr(buffer, name).eq(getattr(pipeline, name))
        for name in ("beat", "read", "take", *units_members(self.config)):
            m.d.comb += getattr(buffer, name).eq(getattr(self, name))
        for name in ("ready", "end", "error", "void", "skipped", "lanes"):
            m.d.comb += getattr(self, name).eq(getattr(buffer, name))
        m.d.comb += [
            buffer.failed.eq(pipeline.code != 0),
            buffer.policy.eq(pipeline.policy),
            buffer.line.eq(pipeline.line),
            # a value's error comes before all that the pipeline finds in later tuples
            self.code.eq(Mux(buffer.unfit.valid, buffer.unfit.code, pipeline.code)),
            self.line.eq(Mux(buffer.unfit.valid, buffer.unfit.line, pipeline.line)),
            self.item.eq(Mux(buffer.unfit.valid, buffer.unfit.item, 0)),
            self.freed.eq(pipeline.freed),
        ]
        return m
