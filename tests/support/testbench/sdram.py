"""A chip of SDR SDRAM, which checks that its rules are kept."""

from __future__ import annotations

from penstock.models.memory.sdram import Chip, Command, SdramError

__all__ = ["Sdram"]


class Sdram:
    """The chip, one clock edge at a time; breaking a rule raises SdramError. Columns that were never written read 0xDEAD.

    Only bursts of one column (mode register 0 in its low three bits) are known.
    """

    def __init__(self, chip: Chip, clock_hz: int) -> None:
        self.chip = chip
        self.rules = chip.cycles(clock_hz)
        self.cycle = 0
        self.refreshes = 0
        self.content: dict[tuple[int, int, int], int] = {}
        self._open: dict[int, int] = {}  # row by bank
        self._activated: dict[int, int] = {}
        self._precharged: dict[int, int] = {}
        self._written: dict[int, int] = {}
        self._all_until = 0  # no command before
        self._refreshed: int | None = None
        self._mode: int | None = None
        self._coming: dict[int, int] = {}  # data by the cycle in which it is on the pins
        self._driven: int | None = None

    def _need(self, good: bool, what: str) -> None:
        if not good:
            raise SdramError(f"cycle {self.cycle}: {what}")

    def _since(self, when: int | None, least: int, what: str) -> None:
        self._need(
            when is None or self.cycle - when >= least,
            f"{what}: {self.cycle - (when or 0)} cycles, {least} are needed",
        )

    def edge(
        self, command: Command, bank: int, address: int, mask: int, data: int | None
    ) -> int | None:
        """Take a rising edge with these pins (`data` is None where the controller does not drive); return what the chip drives up to the next one."""
        rules, auto = self.rules, address >> 10 & 1
        mask = mask if self.chip.masks else 0
        self._need(data is None or self._driven is None, "both ends drive the data pins")
        if self._refreshed is not None:
            self._need(
                self.cycle - self._refreshed <= rules.interval,
                f"no refresh for {self.cycle - self._refreshed} cycles",
            )
        if command not in (Command.NOP, Command.STOP):
            self._need(self.cycle >= rules.power_up, "a command before the power-up time is over")
            self._need(
                self.cycle >= self._all_until,
                f"{command.name} before the command before it is over",
            )
        if command is Command.ACTIVATE:
            self._need(
                self._mode is not None and self.refreshes >= 8, "ACTIVATE before the chip is set up"
            )
            self._need(bank not in self._open, "ACTIVATE of an open bank")
            self._since(self._precharged.get(bank), rules.rp, "tRP")
            self._since(self._activated.get(bank), rules.rc, "tRC")
            self._open[bank], self._activated[bank] = address, self.cycle
        elif command is Command.PRECHARGE:
            for b in range(1 << self.chip.bank_bits) if auto else (bank,):
                if b in self._open:
                    self._since(self._activated[b], rules.ras, "tRAS")
                    self._since(self._written.get(b), rules.wr, "tWR")
                    del self._open[b]
                self._precharged[b] = self.cycle
        elif command in (Command.READ, Command.WRITE):
            self._need(bank in self._open, f"{command.name} of a closed bank")
            self._since(self._activated[bank], rules.rcd, "tRCD")
            self._need(not auto, "auto-precharge is not used")
            place = bank, self._open[bank], address & (1 << self.chip.column_bits) - 1
            if command is Command.READ:
                self._coming[self.cycle + rules.latency] = self.content.get(place, 0xDEAD)
            else:
                self._need(data is not None, "WRITE without data")
                keep = sum(0xFF << 8 * k for k in range(self.chip.width // 8) if mask >> k & 1)
                self.content[place] = self.content.get(place, 0xDEAD) & keep | (data or 0) & ~keep
                self._written[bank] = self.cycle
        elif command is Command.REFRESH:
            self._need(not self._open and bool(self._precharged), "REFRESH with an open bank")
            self._since(max(self._precharged.values()), rules.rp, "tRP")
            self.refreshes += 1
            self._refreshed = self.cycle
            self._all_until = self.cycle + rules.rfc
        elif command is Command.MODE:
            self._need(not self._open and bool(self._precharged), "MODE with an open bank")
            self._since(max(self._precharged.values()), rules.rp, "tRP")
            self._need(
                address & 0b111 == 0 and address >> 4 & 0b111 == rules.latency,
                "a mode that is not known",
            )
            self._mode = address
            self._all_until = self.cycle + rules.mrd
        self.cycle += 1
        self._driven = self._coming.pop(self.cycle, None)
        return self._driven
