"""AMD's XDMA driver (PG195) with what it may do beyond what is hoped for: fewer bytes, interruptions, failures."""

from __future__ import annotations

import os
import random

from penstock.host.device.driver import Driver
from penstock.sim.native import Session

__all__ = ["Troubled"]


class Troubled(Driver):
    """`calls`: how many, of each file. `fails`: an errno, from the `after`-th call on."""

    def __init__(self, session: Session, size: int, seed: int = 1) -> None:
        super().__init__(session, size)
        self.random = random.Random(seed)
        self.calls: dict[str, int] = {}
        self.fails, self.after = 0, 1 << 62

    def begun(self, handle: int, *able: str) -> str:
        name = self.opened.get(handle, "")
        self.calls[name] = self.calls.get(name, 0) + 1
        if sum(self.calls.values()) >= self.after:
            raise OSError(self.fails, os.strerror(self.fails))
        if self.random.random() < 0.1:
            raise InterruptedError
        return super().begun(handle, *able)

    def some(self, offset: int, size: int) -> int:
        whole = super().some(offset, size)
        return self.random.randint(1, whole) if self.random.random() < 0.7 else whole
