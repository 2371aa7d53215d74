"""Memory as a process of Amaranth's simulator: the twin of `models.memory.FixedLatency` and `Dram` for tests of single components.

Whole engines run on `sim.native`, which follows the same rules a thousand times faster.
"""

import random
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...models.memory import Memory
from ...models.memory.dram.memory import Channel, Dram
from .modes import LATEST, NO_MODES, Mode

#: FNV-1a with 64 bits
_FNV_BASE, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


def _add(transfer: list[Any], word: bytes) -> None:
    digest = transfer[4]
    for value in word:
        digest = (digest ^ value) * _FNV_PRIME & (1 << 64) - 1
    transfer[4] = digest


class AxiMemory:
    """Serves one AXI4 port of a component from a byte array.

    * `bus`: the port, an interface of `hdl.memory.AXI4`.
    * `content`: bytes from address 0 on; writes change them. Accesses beyond its end are answered with SLVERR.
    * `timing`: when things happen.
    * `modes`, `seed`: what memory does beside, at random where it is `LATE`.

    Attributes:

    * `ar`, `r`, `aw`, `w`, `b`: cycles of the transfers so far, counted from the start of the process.
    * `bursts`: (address, beats) of the read bursts so far.
    * `transfers`: all bursts so far, each [cycle, "read" or "write", address, beats, FNV-1a of its bytes].
    """

    def __init__(
        self,
        bus: Any,
        content: np.ndarray,
        timing: Memory,
        modes: Mode = NO_MODES,
        seed: int = 1,
    ) -> None:
        self.bus = bus
        self.content = content
        self.timing = timing
        self.modes, self._random = modes, random.Random(seed)
        self.ar: list[int] = []
        self.r: list[int] = []
        self.aw: list[int] = []
        self.w: list[int] = []
        self.b: list[int] = []
        self.bursts: list[tuple[int, int]] = []
        self.transfers: list[list[Any]] = []
        self.origin = 0  #: the process's cycle that is cycle 0 of DRAM
        self.channel: Channel | None = None
        self.begin(0)

    def begin(self, origin: int) -> None:
        """Begin anew with DRAM, whose cycle 0 is this one of the process."""
        self.origin = origin
        self.channel = self.timing.make(self.timing) if isinstance(self.timing, Dram) else None

    def _ready(self, cycle: int, address: int, beats: int) -> list[int]:
        """Return from which cycle on each beat of a burst is there, whose AR is in `cycle`."""
        if self.channel is None:
            return [cycle + self.timing.latency + self._late()] * beats
        width = self.bus.signature.data_bytes
        cycles = self.channel.read(cycle - self.origin, address, beats, width)
        return [self.origin + ready for ready in cycles]

    def _answer(self, cycle: int, address: int, beats: int) -> int:
        """Return from which cycle on a burst is answered, whose last word is taken in `cycle`."""
        if self.channel is None:
            return cycle + self.timing.latency + self._late()
        width = self.bus.signature.data_bytes
        return self.origin + self.channel.write(cycle - self.origin, address, beats, width)

    def _late(self) -> int:
        return self._random.randrange(LATEST) if Mode.LATE in self.modes else 0

    def _ready_to_write(
        self, seen: Mapping[str, int], free: bool, begun: bool, complete: bool
    ) -> tuple[bool, bool]:
        """Return AWREADY and WREADY; `begun`: a burst lacks words, `complete`: one lacks its address alone."""
        waits, word_waits = (bool(seen[c + "valid"] and not seen[c + "ready"]) for c in ("aw", "w"))
        address, word = True, free
        if Mode.READY_AFTER_VALID in self.modes:
            address, word = waits, word and word_waits
        if Mode.ADDRESS_WAITS in self.modes:
            return waits and word_waits and not begun, word and begun
        if Mode.DATA_FIRST in self.modes:
            return address and complete, word and not complete
        return address, word

    @property
    def _interval(self) -> int:
        return 1 if self.channel else self.timing.interval(self.bus.signature.data_bytes)

    def load(self, address: int, width: int) -> bytes | None:
        """Return a word, None where there is no memory."""
        inside = address + width <= len(self.content)
        return self.content[address : address + width].tobytes() if inside else None

    def store(self, address: int, word: bytes, strobe: int) -> bool:
        """Write those bytes of a word whose bit in `strobe` is set; return whether there is memory."""
        if address + len(word) > len(self.content):
            return False
        for k, value in enumerate(word):
            if strobe >> k & 1:
                self.content[address + k] = value
        return True

    def _begin(self, cycle: int, channel: str, address: int, beats: int) -> list[Any]:
        self.transfers.append([cycle, channel, address, beats, _FNV_BASE])
        return self.transfers[-1]

    async def _sampled(
        self, ctx: Any, channel: str, names: Sequence[str]
    ) -> AsyncIterator[dict[str, int]]:
        """Yield, cycle for cycle, what is on an address channel and in these signals."""
        asked = [channel + name for name in ("valid", "ready", "addr", "len", "size", "burst")]
        watched = [*asked, *names]
        async for _, _, *values in ctx.tick().sample(*(getattr(self.bus, n) for n in watched)):
            yield dict(zip(watched, values, strict=True))

    def _asked(self, seen: Mapping[str, int], channel: str) -> tuple[int, int]:
        """Return the address and the beats of a burst that an address channel shows."""
        address, length = seen[f"{channel}addr"], seen[f"{channel}len"] + 1
        self._check(address, length, seen[f"{channel}size"], seen[f"{channel}burst"])
        return address, length

    def _check(self, address: int, length: int, size: int, burst: int) -> None:
        width = self.bus.signature.data_bytes
        assert 1 << size == width and burst == 1, "not an INCR burst of full bus words"
        assert address % width == 0, f"burst at {address:#x} is not aligned"
        assert address // 4096 == (address + length * width - 1) // 4096, (
            f"burst at {address:#x} crosses a 4 KiB boundary"
        )

    async def reads(self, ctx: Any) -> None:
        """The read channels, as a testbench (`simulator.add_testbench(memory.reads, background=True)`)."""
        bus, width = self.bus, self.bus.signature.data_bytes
        queue: deque[list[Any]] = deque()
        free = 0
        word: bytes | None = None
        cycle = 0
        ctx.set(bus.arready, 1)
        async for seen in self._sampled(ctx, "ar", ("rvalid", "rready")):
            if seen["arvalid"] and seen["arready"]:
                address, beats = self._asked(seen, "ar")
                self.ar.append(cycle)
                self.bursts.append((address, beats))
                record = self._begin(cycle, "read", address, beats)
                queue.append([deque(self._ready(cycle, address, beats)), address, beats, record])
            if seen["rvalid"] and seen["rready"]:
                self.r.append(cycle)
                free = cycle + self._interval
                _add(queue[0][3], word or bytes(width))
                queue[0][0].popleft()
                queue[0][1] += width
                queue[0][2] -= 1
                if not queue[0][2]:
                    queue.popleft()
            cycle += 1
            if Mode.READY_AFTER_VALID in self.modes:
                ctx.set(bus.arready, seen["arvalid"] and not seen["arready"])
            offered = bool(queue) and cycle >= max(queue[0][0][0], free)
            ctx.set(bus.rvalid, offered)
            if offered:
                address = queue[0][1]
                word = self.load(address, width)
                ctx.set(bus.rdata, 0 if word is None else int.from_bytes(word, "little"))
                ctx.set(bus.rresp, 2 if word is None else 0)
                ctx.set(bus.rlast, queue[0][2] == 1)

    def _place(self, burst: list[Any], word: bytes, strobe: int, last: int) -> bool:
        """Write the next word of a burst (address, beats left, response, record, words that are written
        with the answer); return whether it is the last."""
        _add(burst[3], word)
        if Mode.VISIBLE_AT_B in self.modes:
            burst[4].append((burst[0], word, strobe))
        elif not self.store(burst[0], word, strobe):
            burst[2] = 2
        burst[0] += len(word)
        burst[1] -= 1
        assert last == (burst[1] == 0), "WLAST does not mark the burst's last beat"
        return not burst[1]

    async def writes(self, ctx: Any) -> None:
        """The write channels, as a testbench."""
        bus, width = self.bus, self.bus.signature.data_bytes
        addresses: deque[list[Any]] = deque()
        words: deque[tuple[bytes, int, int]] = deque()  # that wait for their burst's address
        responses: deque[list[Any]] = deque()
        free = 0
        answer = 0
        cycle = 0
        ctx.set(bus.awready, 1)
        ctx.set(bus.wready, 1)
        names = ("wvalid", "wready", "wdata", "wstrb", "wlast", "bvalid", "bready")
        async for seen in self._sampled(ctx, "aw", names):
            if seen["awvalid"] and seen["awready"]:
                address, beats = self._asked(seen, "aw")
                self.aw.append(cycle)
                record = self._begin(cycle, "write", address, beats)
                addresses.append([address, beats, 0, record, []])
            if seen["wvalid"] and seen["wready"]:
                self.w.append(cycle)
                free = cycle + self._interval
                words.append(
                    (seen["wdata"].to_bytes(width, "little"), seen["wstrb"], seen["wlast"])
                )
            while words and addresses:
                if self._place(addresses[0], *words.popleft()):
                    ended = addresses.popleft()
                    responses.append([self._answer(cycle, *ended[3][2:4]), ended[2], ended[4]])
            if seen["bvalid"] and seen["bready"]:
                self.b.append(cycle)
                answer = cycle + 1
                responses.popleft()
            cycle += 1
            complete = bool(words and words[-1][2])
            address, word = self._ready_to_write(seen, cycle >= free, bool(addresses), complete)
            ctx.set(bus.awready, address)
            ctx.set(bus.wready, word)
            offered = bool(responses) and cycle >= max(responses[0][0], answer)
            ctx.set(bus.bvalid, offered)
            if offered:
                if not all([self.store(*word) for word in responses[0][2]]):
                    responses[0][1] = 2
                responses[0][2] = []
                ctx.set(bus.bresp, responses[0][1])
