"""What a driver needs of the way to a device, whatever that is: a serial line, a network, a simulation.

Each way sends again by itself what is lost; `Statistics.again` counts it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...models.link.device import Identity
from ...models.link.frames import Space, Status
from .errors import DeviceError


@dataclass
class Statistics:
    """What happened on the line so far."""

    sent: int = 0
    again: int = 0
    received: int = 0
    spoilt: int = 0
    nacks: int = 0


class Refused(DeviceError):
    """The device was reached and answered with an error, `answer`."""

    def __init__(self, answer: int) -> None:
        self.answer = Status(answer)
        super().__init__(f"the device answered with {self.answer.name}")


class Transport(Protocol):
    """A connection. Calls from several threads are done one after the other.

    All calls return when they are done, and raise LinkError where the device cannot be reached: at the latest `timeout` seconds after it fell silent. From
    then on, and once it is closed, each raises LinkError. A call that is interrupted (Ctrl-C) sends nothing more, and the connection may be used on.
    """

    identity: Identity
    statistics: Statistics
    timeout: float

    def read(self, space: Space, at: int, size: int) -> bytes:
        """Read bytes of a space. Raises Refused where the device answers with an error."""

    def write(self, space: Space, at: int, data: bytes) -> None:
        """Write bytes; return when the device has them. Writes to registers are done once, whatever happens on the way. Raises Refused."""

    def close(self) -> None:
        """End the connection, and calls under way with LinkError; closing twice is fine."""


#: port, position in its stream, bytes: of a page that is pushed
Piece = tuple[int, int, bytes | memoryview]


@runtime_checkable
class Pushing(Transport, Protocol):
    """A transport by which a device takes pages into its rings by itself (`models.link.pushes`)."""

    def begin(self, port: int, at: int, slots: int, page: int) -> None:
        """Begin a port's stream: `slots` pages of `page` bytes lie from address `at` on. Raises Refused where the device has no such ring."""

    def push(self, pieces: Iterable[Piece | None]) -> None:
        """Push pieces; return when the device has them. Pieces are asked for as there is room for them, so they may follow what `pages` says meanwhile.
        None: there is none for the moment; others are asked for when answers have come, and not if there is nothing left to answer."""

    def pages(self, port: int) -> int:
        """Return how many pages of its stream a port has read, modulo 2^32, as its latest answer says."""


#: opens a connection to a place
Connect = Callable[[str], Transport]


def seconds(timeout: object) -> float:
    """Return a time-out. Raises DeviceError where it is none."""
    if isinstance(timeout, (int, float)) and 0 < timeout < float("inf"):
        return timeout
    raise DeviceError(f"the time-out is a number of seconds, not {timeout!r}", "2 suits boards")
