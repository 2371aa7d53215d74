"""Storage of one buffer of a plan: a memory of beats with one write port and a read port for every reader."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.memory import Memory

from ...models.analytics.config import Buffer
from ..index import index


class Store:
    """`buffer` of a plan as hardware inside module `m`.

    A read address presented in cycle t gives its data in cycle t + 1; a write in cycle t is seen by addresses presented from t + 1 on. A
    buffer of a single beat is a register. Each reader has its own port, so readers never wait for each other.

    * `m`, `name`: where the storage is put, and what it is called there.
    * `buffer`: its shape and slots; `lanes` and `width` (bits of a code) are the plan's.
    * `copied`: each reader has a memory of its own, and beats are written whole.
    """

    def __init__(
        self, m: Module, name: str, buffer: Buffer, lanes: int, width: int, copied: bool = False
    ):
        self.m, self.name, self.width = m, name, width
        self.copied = copied
        self.lanes = buffer.width(lanes)
        self.depth = buffer.beats(lanes) * buffer.slots
        self.write_enable = Signal(self.lanes, name=f"{name}_write")
        self.write_address = index(self.depth, name=f"{name}_write_address")
        self.write_data = Signal(self.lanes * width, name=f"{name}_write_data")
        if self.depth == 1:
            self._register = Signal(self.lanes * width, name=f"{name}_value")
            self._fetched = Signal(self.lanes * width, name=f"{name}_fetched")
            for lane in range(self.lanes):
                with m.If(self.write_enable[lane]):
                    m.d.sync += self._register.word_select(lane, width).eq(
                        self.write_data.word_select(lane, width)
                    )
            m.d.sync += self._fetched.eq(self._register)
        elif copied:
            self._copies = 0
        else:
            self._memory = self._built(name)

    def _built(self, name: str) -> Memory:
        """Return a memory that is written as the buffer is."""
        memory = Memory(shape=self.lanes * self.width, depth=self.depth, init=[])
        self.m.submodules[name] = memory
        by_lane = self.lanes > 1 and not self.copied
        port = memory.write_port(granularity=self.width if by_lane else None)
        self.m.d.comb += [
            port.en.eq(self.write_enable if by_lane else self.write_enable[0]),
            port.addr.eq(self.write_address),
            port.data.eq(self.write_data),
        ]
        return memory

    @property
    def value(self) -> Signal:
        """What a buffer of a single beat holds."""
        return self._register

    def read(self, address: Value, hold: Value | None = None) -> Signal:
        """Return the beat whose address was presented one cycle before, all stored lanes side by side; with `hold` the one that was read stays. What
        is read then is written by nobody."""
        if self.depth == 1:
            return self._fetched
        if self.copied:
            self._memory, self._copies = (
                self._built(f"{self.name}_{self._copies}"),
                self._copies + 1,
            )
        port = self._memory.read_port(domain="sync")
        self.m.d.comb += port.addr.eq(address)
        if hold is not None:
            self.m.d.comb += port.en.eq(~hold)
        return port.data

    def write(
        self, enable: Value, address: Value, data: Value, *, lane: Value | None = None
    ) -> None:
        """Write `data` when `enable`: a beat, or (`lane`) one code into that lane. Several writers must never meet; the last one wins."""
        with self.m.If(enable):
            self.m.d.comb += self.write_address.eq(address)
            if lane is None or self.lanes == 1:
                self.m.d.comb += [self.write_enable.eq(~0), self.write_data.eq(data)]
            else:
                code = data[: self.width]
                self.m.d.comb += [
                    self.write_enable.eq(1 << lane),
                    self.write_data.eq(Cat(code for _ in range(self.lanes))),
                ]

    def code(self, beat: Value, lane: Value | None) -> Value:
        """Return code `lane` of a beat, or the lowest one where there is nothing to choose."""
        code = beat[: self.width]
        for n in range(1, 1 if lane is None else self.lanes):
            code = Mux(lane == n, beat.word_select(n, self.width), code)
        return code
