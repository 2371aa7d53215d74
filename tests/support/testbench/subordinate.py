"""An AXI memory that lets addresses and data wait for each other, or falls silent: for single components in Amaranth's simulator."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ORDERS", "Subordinate"]

#: how AW and W wait for each other (ARM IHI 0022, A3.3.1)
ORDERS = ("neither waits", "AW for WVALID", "AW for all words", "W for AW")

_OFFERED = {
    "ar": ("araddr", "arlen"),
    "aw": ("awaddr", "awlen"),
    "w": ("wdata", "wstrb", "wlast"),
}


class Subordinate:
    """Serves a port, READY after VALID. `pins`: what has its signals as attributes.

    `deaf`: a channel on which nothing moves from its transfer `after` on; "babble": R never ends;
    "unasked": no AR is taken, and R and B are offered all the time.
    Raises AssertionError where what was offered is withdrawn or changed, or W comes before its AW was offered.
    `strobes`: of every word that was taken.
    """

    def __init__(
        self, pins: Any, *, order: str, deaf: str = "", after: int = 0, pace: float = 0.7
    ) -> None:
        self.pins, self.order, self.deaf, self.after, self.pace = pins, order, deaf, after, pace
        self.random = np.random.default_rng(1)
        self.content = self.random.integers(0, 256, 1 << 16, dtype=np.uint8)
        self.moved = dict.fromkeys(("ar", "r", "aw", "w", "b"), 0)
        self.bursts: list[tuple[int, int]] = []
        self.words: list[tuple[int, int]] = []
        self.reads: list[list[int]] = []
        self.complete = self.answered = 0
        self.strobes: list[int] = []

    def _able(self, channel: str) -> bool:
        return self._speaks(channel) and bool(self.random.random() < self.pace)

    def _speaks(self, channel: str) -> bool:
        deaf = "ar" if self.deaf == "unasked" else self.deaf
        return channel != deaf or self.moved[channel] < self.after

    def _ready(self, seen: dict[str, int], waits: dict[str, bool]) -> dict[str, bool]:
        """Which of the offers that are there are taken in the next cycle."""
        addresses, given = self.moved["aw"], self.complete
        # the burst whose address is offered: are its words offered, are they taken?
        taken = given > addresses
        offered = taken or (given == addresses and waits["w"])
        aw = {"AW for WVALID": offered, "AW for all words": taken}.get(self.order, True)
        early = self.order in ("neither waits", "AW for all words")
        w = addresses > given or (early and given == addresses and waits["aw"])
        may = {"ar": True, "aw": aw, "w": w}
        return {c: waits[c] and may[c] and self._able(c) for c in may}

    def _take(self, seen: dict[str, int], moves: dict[str, bool]) -> None:
        for channel, happens in moves.items():
            self.moved[channel] += happens
        if moves["ar"]:
            self.reads.append([seen["araddr"], seen["arlen"] + 1])
        if moves["aw"]:
            self.bursts.append((seen["awaddr"], seen["awlen"] + 1))
        if moves["w"]:
            self.words.append((seen["wdata"], seen["wstrb"]))
            self.strobes.append(seen["wstrb"])
            self.complete += seen["wlast"]
        if moves["r"] and self.deaf not in ("babble", "unasked"):
            self.reads[0] = [self.reads[0][0] + self._width, self.reads[0][1] - 1]
            if not self.reads[0][1]:
                self.reads.pop(0)
        if moves["b"]:
            self.answered += 1

    def _store(self) -> None:
        """What a burst wrote is seen when it is answered."""
        at, beats = self.bursts[self.answered]
        for word, strobe in self.words[:beats]:
            for k in range(self._width):
                if strobe >> k & 1:
                    self.content[at + k] = word >> 8 * k & 255
            at += self._width
        del self.words[:beats]

    async def serve(self, ctx: Any) -> None:
        pin = lambda name: getattr(self.pins, name)
        names = [n for c in _OFFERED.values() for n in c]
        flags = [f"{c}{e}" for c in self.moved for e in ("valid", "ready")]
        self._width = len(pin("wstrb"))
        before: dict[str, tuple[int, ...]] = {}
        async for _, _, *values in ctx.tick().sample(*(pin(n) for n in [*names, *flags])):
            seen = dict(zip([*names, *flags], values, strict=True))
            offers = {
                c: tuple(seen[n] for n in of) for c, of in _OFFERED.items() if seen[f"{c}valid"]
            }
            for channel, offer in before.items():
                assert offers.get(channel) == offer, f"{channel} was withdrawn or changed"
            assert "w" not in offers or self.complete < self.moved["aw"] or "aw" in before, (
                "W before its AW was offered"
            )
            moves = {c: bool(seen[f"{c}valid"] and seen[f"{c}ready"]) for c in self.moved}
            before = {c: offer for c, offer in offers.items() if not moves[c]}
            self._take(seen, moves)
            waits = {c: c in before for c in _OFFERED}
            for channel, ready in self._ready(seen, waits).items():
                ctx.set(pin(f"{channel}ready"), ready)
            if moves["r"] or not seen["rvalid"]:
                ctx.set(pin("rvalid"), valid := bool(self.reads) and self._able("r"))
                if valid:
                    at, left = self.reads[0]
                    word = self.content[at : at + self._width].tobytes()
                    ctx.set(pin("rdata"), int.from_bytes(word, "little"))
                    ctx.set(pin("rlast"), left == 1 and self.deaf != "babble")
            if moves["b"] or not seen["bvalid"]:
                due = min(self.moved["aw"], self.complete) > self.answered
                ctx.set(pin("bvalid"), valid := due and self._able("b"))
                if valid:
                    self._store()
            for name in ("rvalid", "rlast", "bvalid") if self.deaf == "unasked" else ():
                ctx.set(pin(name), 1)
