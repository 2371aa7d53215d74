"""Memory as a process of Amaranth's simulator: the twin of `models.memory.FixedLatency` and `Dram` for tests of single components.

Whole engines run on `sim.native`, which follows the same rules a thousand times faster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...models.memory import Memory
from ...models.memory.dram import Channel, Dram

__all__ = ["AxiMemory"]


#: FNV-1a with 64 bits
_FNV_BASE, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


def _add(transfer: list[Any], word: bytes) -> None:
    digest = transfer[4]
    for value in word:
        digest = (digest ^ value) * _FNV_PRIME & (1 << 64) - 1
    transfer[4] = digest


class AxiMemory:
    """Serves one AXI4 port of a component from a byte array.

    Parameters
    ----------
    bus
        The port, an interface of `hdl.memory.AXI4`.
    content
        Bytes from address 0 on; writes change them. Accesses beyond its end are answered with SLVERR.
    timing
        When things happen.

    Attributes
    ----------
    ar, r, aw, w, b
        Cycles of the transfers so far, counted from the start of the process.
    bursts
        (address, beats) of the read bursts so far.
    transfers
        All bursts so far, each [cycle, "read" or "write", address, beats, FNV-1a of its bytes].
    """

    def __init__(self, bus: Any, content: np.ndarray, timing: Memory) -> None:
        self.bus = bus
        self.content = content
        self.timing = timing
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
            return [cycle + self.timing.latency] * beats
        width = self.bus.signature.data_bytes
        found = self.channel.read(cycle - self.origin, address, beats, width)
        return [self.origin + ready for ready in found]

    def _answer(self, cycle: int, address: int, beats: int) -> int:
        """Return from which cycle on a burst is answered, whose last word is taken in `cycle`."""
        if self.channel is None:
            return cycle + self.timing.latency
        width = self.bus.signature.data_bytes
        return self.origin + self.channel.write(cycle - self.origin, address, beats, width)

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
        asked = [channel + name for name in ("valid", "addr", "len", "size", "burst")]
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
            if seen["arvalid"]:
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
            offered = bool(queue) and cycle >= max(queue[0][0][0], free)
            ctx.set(bus.rvalid, offered)
            if offered:
                address = queue[0][1]
                word = self.load(address, width)
                ctx.set(bus.rdata, 0 if word is None else int.from_bytes(word, "little"))
                ctx.set(bus.rresp, 2 if word is None else 0)
                ctx.set(bus.rlast, queue[0][2] == 1)

    def _place(self, burst: list[Any], word: bytes, strobe: int, last: int) -> bool:
        """Write the next word of a burst (address, beats left, response, record); return whether it is the last."""
        _add(burst[3], word)
        if not self.store(burst[0], word, strobe):
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
        responses: deque[list[int]] = deque()
        free = 0
        answer = 0
        cycle = 0
        ctx.set(bus.awready, 1)
        ctx.set(bus.wready, 1)
        names = ("wvalid", "wready", "wdata", "wstrb", "wlast", "bvalid", "bready")
        async for seen in self._sampled(ctx, "aw", names):
            if seen["awvalid"]:
                address, beats = self._asked(seen, "aw")
                self.aw.append(cycle)
                record = self._begin(cycle, "write", address, beats)
                addresses.append([address, beats, 0, record])
            if seen["wvalid"] and seen["wready"]:
                self.w.append(cycle)
                free = cycle + self._interval
                words.append(
                    (seen["wdata"].to_bytes(width, "little"), seen["wstrb"], seen["wlast"])
                )
            while words and addresses:
                if self._place(addresses[0], *words.popleft()):
                    _, _, response, (_, _, at, beats, _) = addresses.popleft()
                    responses.append([self._answer(cycle, at, beats), response])
            if seen["bvalid"] and seen["bready"]:
                self.b.append(cycle)
                answer = cycle + 1
                responses.popleft()
            cycle += 1
            ctx.set(bus.wready, cycle >= free)
            ctx.set(bus.bvalid, bool(responses) and cycle >= max(responses[0][0], answer))
            if responses:
                ctx.set(bus.bresp, responses[0][1])
