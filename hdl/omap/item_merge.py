"""The back's merge: which items stay in their page, and which one is asked for."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .item_reader import row_layout


class ItemMerge(wiring.Component):
    """Items that stay go to their page; the one that is asked for is kept, or the new one. All in the
    cycle of the row.
    """

    def __init__(self, config, ticket):
        rows, width = max(config.page_rows, 2), 128 * config.merge_blocks
        super().__init__(
            {
                "i": In(row_layout(config, ticket)),
                # as in `hdl.omap.back.Back`
                "put": Out(1).array(2),
                "put_row": Out(range(rows)).array(2),
                "put_data": Out(width).array(2),
                "used": Out(range(rows + 1)).array(2),
                # a row of the item that gets a frame
                "keeps": Out(1),
                "kept": Out(width),
                # a row of the item that is asked for
                "finds": Out(1),
                "found": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        op = self.i.stage.op
        takes = []
        for k, side in enumerate(self.i.sides):
            asked, held = Signal(name=f"asked{k}"), Signal(name=f"held{k}")
            used, put = Signal.like(self.used[k], name=f"count{k}"), self.put[k]
            match = op.hit & (side.own | (side.item[: len(op.key)] == op.key))
            before = Mux(self.i.begins, 0, used)
            m.d.comb += [
                asked.eq(Mux(self.i.part == 0, match, held)),  # of all rows of an item
                put.eq(side.there & ~asked),
                self.put_row[k].eq(before),
                self.put_data[k].eq(side.item),
                self.used[k].eq(used),
            ]
            m.d.sync += [held.eq(asked), used.eq(before + put)]
            takes.append(side.there & asked)
        m.d.comb += [
            self.finds.eq(takes[0] | takes[1]),
            self.found.eq(Mux(takes[1], self.i.sides[1].item, self.i.sides[0].item)),
            self.keeps.eq(Mux(op.put, self.i.stores, self.finds)),
            self.kept.eq(Mux(op.put, self.i.new, self.found)),
        ]
        return m
