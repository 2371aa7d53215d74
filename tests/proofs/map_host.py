"""What gives a proof's map its inputs in directed runs: a host's memory, HBM, and one run after another."""

from __future__ import annotations

import random
from collections.abc import Callable

from amaranth.hdl import Value
from harness import Bench

from penstock.models.omap.shell import Handshake, ports

__all__ = ["MapHost"]

#: of each run: how many frames, and what it does beside them
_RUNS = (
    (3, Handshake.FILE | Handshake.TAKE),
    (0, Handshake.FILE | Handshake.COLLECT),
    (1, 0),
    (7, 0),
)
#: what is never awaited
_ALWAYS = frozenset(
    ("pairs.valid0", *(f"Door.{name}0" for name in ("there", "live", "idle", "file_free", "drawn")))
)


class MapHost:
    """A directed run: two engines that have different requests, and HBM that keeps what is written. They
    restore a file, begin their log, and carry out requests.

    The host's memory answers both as it answers the first one: until a check fails, both ask for the
    same. Each block that is opened is a random small number, be it a key or an operation, so that keys
    come again. HBM has zeros at first, or with an odd seed whatever it likes: bins that have items in one
    run and none in the other.
    """

    def __init__(self, bench: Bench, seed: int) -> None:
        self._draw, self._runs, self._begins = random.Random(seed), iter(_RUNS), 2
        self._config, first, second = bench.looked_at
        self._inputs, self._done = bench.inputs, first["done"]
        size = self._config.bus_bytes
        self._memories = []
        for k, hbm in enumerate(ports(self._config, True).values()):
            for n, outputs in enumerate((first, second) if hbm else (first,)):
                run = f" ({n})" if hbm else ""
                word = size if hbm else self._config.host_bus_bytes
                # apart from what gives the inputs, which are the seed's
                fill = random.Random(n) if hbm and seed % 2 else None
                self._memories.append(_Memory(f"m{k}", outputs, run, word, fill))

    def give(self) -> dict[str, int]:
        draw, given = self._draw, {}
        if self._begins == 2:
            self._count, self._beside = next(self._runs, (0, 0))
        bins = draw.sample(range(self._config.bins), 2)
        for name in self._inputs:
            if name in _ALWAYS:
                given[name] = 1
            elif name.startswith("FrameOpener.number") and self._records:
                given[name] = draw.choice((1, 1, 2))
            elif name.startswith("FrameOpener.fits"):
                given[name] = draw.random() < 0.8
            elif ".fits" in name or name == "Door.role0":  # a writer's
                given[name] = 1
            elif name.startswith(("Sponge.result", "FrameOpener.key", "FrameOpener.operation")):
                given[name] = draw.randrange(1, 3)
            elif name.startswith("pairs.payload"):
                given[name] = sum(n << 2 * k for k, n in enumerate(draw.sample(range(4), 4)))
        given |= {"Shown.bin00": bins[0], "Shown.bin10": bins[1]}
        given |= {"start": self._begins == 1, "reset": self._begins == 2, "count": self._count}
        given |= {
            "handshake": int(self._beside),
            "responses": 0x1000,
            "pages": 0x2000,
            "log": 0x3000,
            "snapshot": 0x3800,
            "walk": 2 * (self._count == 1),
            "welcome": 0x800,
        }
        for memory in self._memories:
            given |= memory.give()
        self._begins = max(self._begins - 1, 0)
        return given

    @property
    def _records(self) -> bool:
        return bool(self._beside & Handshake.FILE)

    def see(self, get: Callable[[Value], int]) -> None:
        for memory in self._memories:
            memory.see(get)
        if get(self._done):
            self._begins = 2


class _Memory:
    """A memory that answers in the next cycle. Addresses are those of its words' bytes. `fill`: draws what
    was never written."""

    def __init__(
        self,
        port: str,
        outputs: dict[str, Value],
        run: str,
        size: int,
        fill: random.Random | None,
    ) -> None:
        self._port, self._run, self._size, self._fill = port, run, size, fill
        self._outputs = {
            name.removeprefix(f"{port}__"): value
            for name, value in outputs.items()
            if name.startswith(f"{port}__")
        }
        self._words: dict[int, int] = {}
        self._reads: list[list[int]] = []  # word, words left
        self._writes: list[int] = []  # the next word of each
        self._data: list[tuple[int, int, bool]] = []
        self._done = 0

    def give(self) -> dict[str, int]:
        named = {"arready": 1, "awready": 1, "wready": 1, "bvalid": self._done > 0}
        read = {}
        if self._reads:
            word, left = self._reads[0]
            named |= {"rvalid": 1, "rlast": left == 1}
            if self._fill and word not in self._words:
                some = self._fill.getrandbits(1)
                self._words[word] = self._fill.getrandbits(8 * self._size) if some else 0
            read = {"rdata": self._words.get(word, 0)}
        own = {f"{self._port}__{name}{self._run}": int(v) for name, v in (named | read).items()}
        if not self._run:  # what the host's memory holds is each run's own
            own |= {f"{self._port}__rdata ({n})": v for n in range(2) for v in read.values()}
        return own

    def see(self, get: Callable[[Value], int]) -> None:
        out = {name: get(value) for name, value in self._outputs.items()}
        if self._reads and out.get("rready"):
            self._reads[0][0] += 1
            self._reads[0][1] -= 1
            if not self._reads[0][1]:
                del self._reads[0]
        if self._done and out.get("bready"):
            self._done -= 1
        if out.get("arvalid"):
            self._reads.append([out["araddr"] // self._size, out["arlen"] + 1])
        if out.get("awvalid"):
            self._writes.append(out["awaddr"] // self._size)
        if out.get("wvalid"):
            self._data.append((out["wdata"], out["wstrb"], bool(out["wlast"])))
        while self._writes and self._data:
            value, strobe, last = self._data.pop(0)
            mask = sum(0xFF << 8 * k for k in range(self._size) if strobe >> k & 1)
            word = self._writes[0]
            self._words[word] = self._words.get(word, 0) & ~mask | value & mask
            self._writes[0] += 1
            if last:
                del self._writes[0]
                self._done += 1
