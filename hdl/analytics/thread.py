"""One thread: the datapath that works on one tuple at a time, steered from the core in lock step with all other threads."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.analytics.config import AnalyticsPlan
from ...models.analytics.waits import in_unit
from ..modules import Parts
from .datapath import Control, Datapath, Reduction, Write
from .store import Store


class ThreadPorts:
    """Names and widths of what the core sends to every thread, derived from the plan alone."""

    def __init__(self, plan: AnalyticsPlan):
        self.plan = plan
        self.ops = [n for n, op in enumerate(plan.ops) if op.home == "thread"]
        self.reductions = list(
            dict.fromkeys(r for n in self.ops if (r := Datapath.reduction(plan.ops[n])))
        )
        self.merging = sorted({plan.ops[n].unit for n in self.ops if plan.ops[n].merge is not None})
        self.inputs = plan.inputs()
        #: operands (operation, number) that the core has of its only thread: integers that name rows, values that change them
        self.exports = [
            (n, k)
            for n, op in enumerate(plan.ops)
            for k in range(len(op.operands))
            if op.touches_rows and k in (1, 2) and self.is_local(n, k)
        ]
        #: operations among them that change rows, and may wait for an earlier change of the same row (input `hold`)
        self.held = (
            {n for n, _ in self.exports if plan.ops[n].changes_rows} if in_unit(plan) else set()
        )
        self.store_depth = {n: b.beats(plan.lanes) * b.slots for n, b in enumerate(plan.buffers)}

    def is_local(self, n: int, k: int) -> bool:
        return self.plan.buffers[self.plan.ops[n].operands[k].buffer].home == "thread"

    def operand_width(self, n: int, k: int) -> int:
        """Bits of an operand that comes from the core: a code for all lanes, or a beat."""
        operand = self.plan.ops[n].operands[k]
        buffer = self.plan.buffers[operand.buffer]
        width = buffer.bits or self.plan.format.width
        return width if operand.element else buffer.width(self.plan.lanes) * width

    def members(self) -> dict[str, int]:
        """Return all input ports by name with their widths in bits. In names: n an operation, k its operand, r a reduction, else a buffer. Of a reduction
        `keep` says which lanes count."""
        plan = self.plan
        ports: dict[str, int] = {}
        for n in self.ops:
            op = plan.ops[n]
            ports[f"select{n}"] = 1
            for k, operand in enumerate(op.operands):
                if self.is_local(n, k):
                    ports[f"address{n}_{k}"] = max(
                        1, (self.store_depth[operand.buffer] - 1).bit_length()
                    )
                    ports[f"lane{n}_{k}"] = max(1, (plan.lanes - 1).bit_length())
                else:
                    ports[f"operand{n}_{k}"] = self.operand_width(n, k)
            if op.merge is None:
                ports[f"write{n}"] = 1
                ports[f"write_address{n}"] = max(1, (self.store_depth[op.dest] - 1).bit_length())
                ports[f"write_lane{n}"] = max(1, (plan.lanes - 1).bit_length())
        for n, k in self.exports:
            depth = self.store_depth[plan.ops[n].operands[k].buffer]
            ports[f"address{n}_{k}"] = max(1, (depth - 1).bit_length())
            ports[f"lane{n}_{k}"] = max(1, (plan.lanes - 1).bit_length())
        if self.held:
            ports["hold"] = 1
        for r, _ in enumerate(self.reductions):
            ports[f"valid{r}"], ports[f"last{r}"], ports[f"keep{r}"] = 1, 1, plan.lanes
        for number in self.inputs:
            ports[f"load{number}"] = 1
            ports[f"load_address{number}"] = max(1, (self.store_depth[number] - 1).bit_length())
        ports["load_data"] = plan.lanes * plan.format.width
        return ports


class Thread(wiring.Component):
    def __init__(self, plan: AnalyticsPlan, library: Parts):
        self.plan, self.library = plan, library
        self.ports = ThreadPorts(plan)
        # bits that choose an operand's lane, select and steer arrive in the cycle of their use
        members = {name: In(width) for name, width in self.ports.members().items()}
        # the lanes that leave each unit whose results are merged
        members.update(
            {f"merge{u}": Out(plan.units[u].lanes * plan.format.width) for u in self.ports.merging}
        )
        for n, k in self.ports.exports:
            # an operand that the core asks for, a cycle after its address
            members[f"export{n}_{k}"] = Out(self.ports.operand_width(n, k))
        if not plan.learns:
            # in the cycle in which it is written
            members["score"] = Out(plan.format.width)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        plan, ports, width = self.plan, self.ports, self.plan.format.width
        stores = {
            n: Store(m, f"buffer{n}", b, plan.lanes, b.bits or width)
            for n, b in enumerate(plan.buffers)
            if b.home == "thread"
        }
        control = Control()
        for n in ports.ops:
            op = plan.ops[n]
            control.select[n] = getattr(self, f"select{n}")
            if op.merge is None:
                control.write[n] = Write(
                    getattr(self, f"write{n}"),
                    getattr(self, f"write_address{n}"),
                    getattr(self, f"write_lane{n}") if op.element_dest else None,
                )
        for r, reduction in enumerate(ports.reductions):
            self._steer(control, reduction, r)

        def source(n: int, k: int):
            operand = plan.ops[n].operands[k]
            if not ports.is_local(n, k):
                return getattr(self, f"operand{n}_{k}")
            store = stores[operand.buffer]
            hold = self.hold if n in ports.held else None
            data = store.read(getattr(self, f"address{n}_{k}"), hold)
            if not operand.element:
                return data
            lane = getattr(self, f"lane{n}_{k}") if operand.col else None
            return store.code(data, lane)

        for n, k in ports.exports:
            m.d.comb += getattr(self, f"export{n}_{k}").eq(source(n, k))
        datapath = Datapath(m, self.library, plan, "thread", control, source)
        datapath.write_back(stores)
        for u in ports.merging:
            for lane, value in enumerate(datapath.outputs[u]):
                m.d.comb += getattr(self, f"merge{u}").word_select(lane, width).eq(value)
        if plan.roles.score is not None:
            m.d.comb += self.score.eq(stores[plan.roles.score].write_data)
        for number in ports.inputs:
            place = plan.layout.field(plan.buffers[number].name)
            store = stores[number]
            offset = place.position % plan.lanes
            store.write(
                getattr(self, f"load{number}"),
                getattr(self, f"load_address{number}"),
                self.load_data[offset * width : (offset + store.lanes) * width],
            )
        return m

    def _steer(self, control: Control, reduction: Reduction, r: int) -> None:
        control.valid[reduction] = getattr(self, f"valid{r}")
        control.last[reduction] = getattr(self, f"last{r}")
        control.keep[reduction] = getattr(self, f"keep{r}")
