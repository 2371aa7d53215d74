"""The one place where something secret becomes public: the bins that an operation shows."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Shown(wiring.Component):
    """Chooses the pair that an operation shows: its item's, or a stand-in where there is no item.

    Each of these pairs was drawn uniformly and used for nothing that anyone sees, so that the choice
    tells nothing; proofs take it as public, and nothing else. Combinational.
    """

    def __init__(self, bits):
        # `kept0`, `kept1`: the item's pair; `drawn0`, `drawn1`: the stand-in
        pairs = dict.fromkeys(("kept0", "kept1", "drawn0", "drawn1"), In(bits))
        # `bin0`, `bin1`: what is shown
        super().__init__({"found": In(1), **pairs, "bin0": Out(bits), "bin1": Out(bits)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.bin0.eq(Mux(self.found, self.kept0, self.drawn0)),
            self.bin1.eq(Mux(self.found, self.kept1, self.drawn1)),
        ]
        return m
