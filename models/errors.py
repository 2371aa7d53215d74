"""Named errors that hardware reports, the same on every backend (contract C4).

A run that meets one of these publishes no result. The status registers carry the code, the block
number, the line pointer (0 where the error is not about one tuple) and, where the error is about
one value, which it is. Codes below 64 are of
packages that several engines use, 64 to 79 are common to all engines, those from 80 on are an
engine's own. An engine's codes travel in its register map (`models.shell.RegisterMap.errors`).
"""

from __future__ import annotations

import copyreg
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Protocol, Self


class Error(Exception):
    """What a user can mend, or should hear of: the base of Penstock's exceptions (`penstock.Error`).

    `code`: as `penstock explain` takes it, "" where there is no page about it; `message`: what is wrong; `hint`: what to do, ""
    where the message says it; `spans`: places in a kernel's source, the first the one that is meant, none where it is not about a kernel.
    """

    code: str = ""
    hint: str = ""
    spans: tuple[Any, ...] = ()

    def __init__(self, message: str, hint: str = "", *, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        if hint:
            self.hint = hint
        if code:
            self.code = code

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class HardwareCode(IntEnum):
    """Base of enumerations of codes. Each member is its code, what it means, what to do about it,
    and the page of diagnostics about it; without a hint it is a defect of Penstock's."""

    meaning: str
    hint: str
    page: str

    def __new__(cls, code: int, meaning: str = "", hint: str = "", page: str = "E816") -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning, member.hint, member.page = meaning, hint, page
        return member


class ErrorCode(HardwareCode):
    """What can stop a run of any engine."""

    OK = 0
    BUS_READ = 64, "a read was answered with an error"
    BUS_WRITE = 65, "a write was answered with an error"
    WATCHDOG = 67, "nothing moved for too long"
    REGISTER = (
        68,
        "a register had a value with which no run may start",
        "write a legal value to the register whose offset is error_item, and start again",
        "E835",
    )
    DEAD_PORT = (
        69,
        "a memory port made no transfer while it was brought to rest",
        "reset the device by its pin or program it again; the memory behind its ports does not answer",
        "E818",
    )


class NamedCode(Protocol):
    """A code with its name: a member of a `HardwareCode`, or an `ErrorEntry`."""

    @property
    def name(self) -> str: ...

    @property
    def meaning(self) -> str: ...

    @property
    def hint(self) -> str: ...

    @property
    def page(self) -> str: ...

    def __int__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class ErrorEntry:
    """A code as it stands in a manifest. It equals every code of the same number."""

    code: int
    name: str
    meaning: str = ""
    hint: str = ""
    page: str = "E816"

    def __int__(self) -> int:
        return self.code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, ErrorEntry)) and int(self) == int(other)

    def __hash__(self) -> int:
        return hash(self.code)

    @classmethod
    def of(cls, code: HardwareCode) -> ErrorEntry:
        """Return a member of an enumeration as plain data."""
        return cls(int(code), code.name, code.meaning, code.hint, code.page)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class HardwareError:
    """One error report."""

    code: NamedCode
    #: the page's index in the run's pages, or what the engine counts in place of pages
    block: int = 0
    line: int = 0  #: the line pointer, from 1 on; 0: none
    #: what of it, from 1 on as the code says: of a value that does not fit, its flat position in
    #: the tuple; 0: none
    item: int = 0
    #: the column that it is about, where that is known
    column: str = field(default="", compare=False, kw_only=True)
    #: what was found, where that is known
    detail: str = field(default="", compare=False, kw_only=True)
    #: what to do, where the code's hint does not help
    advice: str = field(default="", compare=False, kw_only=True)

    @property
    def hint(self) -> str:
        return self.advice or self.code.hint

    @property
    def meaning(self) -> str:
        """What the code means, and what was found."""
        return self.code.meaning + (f": {self.detail}" if self.detail else "")

    def __str__(self) -> str:
        if self.code.name == "REGISTER":
            return f"REGISTER at register {self.item:#x}"
        place = f"block {self.block}" + (f", line pointer {self.line}" if self.line else "")
        item = f", value {self.item}" if self.item else ""
        item = f", column {self.column}" if self.column else item
        return f"{self.code.name} at {place}{item}"


class RunError(Error):
    """A run was stopped, and has no result. `error`: what the hardware, or the golden model, reported."""

    def __init__(self, error: HardwareError) -> None:
        super().__init__(f"{error}: {error.meaning}", error.hint, code=error.code.page)
        self.error = error
