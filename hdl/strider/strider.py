"""A Strider: what reads pages, with its tuple buffer: the unit that a port has many of."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.passing import fields
from .pipeline import StriderPipeline
from .tuples import TupleBuffer, item_bits, units_members

#: members that are a part's own
_OF_PIPELINE = ("word", "write", "program", "program_length", "freed")
_OF_BUFFER = ("ready", "end", "error", "void", "skipped", "beat", "read", "take", "lanes")


class Strider(wiring.Component):
    """Takes every n-th page of a port with n Striders and keeps its tuples until the collector takes them.

    * `config`: the port's configuration.
    * `parts`: gives memories and converters.
    """

    def __init__(self, config, parts):
        self.pipeline, self.buffer = StriderPipeline(config, parts), TupleBuffer(config, parts)
        self.outside = dict.fromkeys(_OF_PIPELINE, self.pipeline)
        self.outside |= dict.fromkeys((*_OF_BUFFER, *units_members(config)), self.buffer)
        super().__init__(
            {name: part.signature.members[name] for name, part in self.outside.items()}
            | {
                "code": Out(8),  # with `error`: what
                "line": Out(13),  # at which line pointer
                "item": Out(item_bits(config)),  # of a value its flat position, counted from 1
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.pipeline = pipeline = self.pipeline
        m.submodules.buffer = buffer = self.buffer
        for name, part in self.outside.items():
            inner, outer = getattr(part, name), getattr(self, name)
            taken = self.signature.members[name].flow is In
            m.d.comb += inner.eq(outer) if taken else outer.eq(inner)
        m.d.comb += [
            pipeline.room.eq(buffer.room),
            *fields(buffer, taken=pipeline.taken, tag=pipeline.tag, window=pipeline.window),
            *fields(buffer, policy=pipeline.policy, line=pipeline.line),
            buffer.failed.eq(pipeline.code != 0),
            # a value's error comes before all that the pipeline finds in later tuples
            self.code.eq(Mux(buffer.unfit.valid, buffer.unfit.code, pipeline.code)),
            self.line.eq(Mux(buffer.unfit.valid, buffer.unfit.line, pipeline.line)),
            self.item.eq(Mux(buffer.unfit.valid, buffer.unfit.item, 0)),
        ]
        return m
