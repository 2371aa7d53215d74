"""What carries a map's operations out: the models, or a device that gets sealed requests.

A *backend* takes requests and gives responses. A *carrier* stands on the host's side of a device: it
takes sealed requests and gives sealed responses, has no key, and learns how many there are. `Sealed`
makes a backend of a carrier and a session, which the client alone has.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from ...models.errors import Error, HardwareError
from ...models.memory import FixedLatency, Memory
from ...models.omap.config import OmapConfig
from ...models.omap.cycles import public, run
from ...models.omap.device import Device, Stopped
from ...models.omap.golden import Map, Overflow, Step
from ...models.omap.messages import Keys, Request, Response
from ...models.omap.shell import key_registers
from ...sim.machine import Closing, Machine, round_up
from .session import Session

__all__ = [
    "BACKENDS",
    "Carrier",
    "GoldenBackend",
    "MachineCarrier",
    "MapBackend",
    "MapStopped",
    "ModelBackend",
    "ModelCarrier",
    "Opens",
    "Sealed",
    "fresh_keys",
    "open_backend",
]

#: backends by name; hardware is handed in by what opens it (`Opens`)
BACKENDS = ("golden", "model", "device")


class MapStopped(Error):
    """The map has stopped, and answers no more. `error`: why."""

    def __init__(self, error: HardwareError) -> None:
        super().__init__(
            f"{error.code.meaning}; {error.code.hint}", error.code.hint, code=error.code.page
        )
        self.error = error


def fresh_keys() -> Keys:
    """Return new keys from the system's generator."""
    return Keys(*(secrets.randbits(128) for _ in range(4)))


class MapBackend(Protocol):
    """Carries out requests, in order. Raises MapStopped. `first`: the session's number of the map's
    first request; a map that others filled has one that is not 0."""

    config: OmapConfig
    first: int

    def run(self, requests: Sequence[Request]) -> list[Response]: ...

    def close(self) -> None: ...


class GoldenBackend(Closing):
    """The golden model, which keeps items in Python and seals nothing."""

    first = 0

    def __init__(self, config: OmapConfig, keys: Keys | None = None) -> None:
        self.config = config
        self.map = Map(config, fresh_keys() if keys is None else keys)
        self._error: HardwareError | None = None

    def run(self, requests: Sequence[Request]) -> list[Response]:
        if self._error is not None:
            raise MapStopped(self._error)
        try:
            done = list(self.map.run(requests))
        except Overflow as problem:
            self._error = HardwareError(problem.code)
            raise MapStopped(self._error) from None
        self._count(done)
        return [step.response for step in done]

    def _count(self, steps: Sequence[Step]) -> None:
        """What else there is to know of these steps."""


class ModelBackend(GoldenBackend):
    """The golden model with the time that the hardware would take: `cycles` and `operations` of all
    calls, each of which is one start of the engine.

    Parameters: `link`: timing of the host's memory.
    """

    def __init__(self, config: OmapConfig, link: Memory, keys: Keys | None = None) -> None:
        super().__init__(config, keys)
        self.link = link
        self.cycles = self.operations = 0

    def _count(self, steps: Sequence[Step]) -> None:
        if steps:
            self.cycles += run(self.config, public(steps), self.link).total
            self.operations += len(steps)


# devices, which take sealed requests


class Carrier(Protocol):
    """The host's side of a device: carries sealed requests there, and sealed responses back, all of
    `config.message_bytes`. Raises MapStopped."""

    config: OmapConfig

    def carry(self, sealed: Sequence[bytes]) -> list[bytes]: ...

    def close(self) -> None: ...


class ModelCarrier(Closing):
    """The golden model as a device: the host's pages lie in `pages` as ciphertext."""

    def __init__(self, config: OmapConfig, keys: Keys) -> None:
        self.config = config
        self._device = Device(config, keys)

    @property
    def pages(self) -> bytearray:
        return self._device.pages

    def carry(self, sealed: Sequence[bytes]) -> list[bytes]:
        try:
            return [self._device.serve(message) for message in sealed]
        except Stopped as problem:
            raise MapStopped(HardwareError(problem.code)) from None


class MachineCarrier(Closing):
    """Hardware as a device: simulated, or a real one. Keys are loaded by the first start, and not
    kept here.

    Parameters
    ----------
    machine
        Runs the engine; closed with the carrier.
    keys
        Of the map.
    most
        Requests of one start; more are several starts.

    A machine with memory of its own (`capacity`) has one address space: the map's HBM then lies
    behind the host's part, and the host could read it, so that such a device hides nothing.
    """

    def __init__(self, config: OmapConfig, machine: Machine, keys: Keys, most: int = 1024) -> None:
        self.config, self._machine, self._most = config, machine, most
        self._error: HardwareError | None = None
        self._requests = round_up(config.host_bytes)
        self._responses = self._requests + round_up(most * config.message_bytes)
        end = self._responses + round_up(most * config.message_bytes)
        hbm = 0 if machine.capacity is None else end
        machine.reserve(0, end + (config.hbm_bytes if hbm else 0))
        if not hbm:
            machine.reserve(0, config.hbm_bytes, space=1)
        # a simulated memory is zero, a device's is cleared by the first start
        self._set_up: Mapping[str, int] = key_registers(keys, zeroed=not hbm, hbm=hbm)
        self.cycles = 0

    @classmethod
    def memory_bytes(cls, config: OmapConfig, most: int = 1024) -> int:
        """Return the memory that a machine with one address space needs."""
        messages = 2 * round_up(most * config.message_bytes)
        return round_up(config.host_bytes) + messages + config.hbm_bytes

    def carry(self, sealed: Sequence[bytes]) -> list[bytes]:
        answers: list[bytes] = []
        for at in range(0, len(sealed), self._most):
            answers += self._start(sealed[at : at + self._most])
        return answers

    def _start(self, sealed: Sequence[bytes]) -> list[bytes]:
        if self._error is not None:
            raise MapStopped(self._error)
        size = self.config.message_bytes
        self._machine.write(self._requests, np.frombuffer(b"".join(sealed), dtype=np.uint8))
        ended = self._machine.run(
            {
                **self._set_up,
                "requests": self._requests,
                "responses": self._responses,
                "pages": 0,
                "count": len(sealed),
                "interval": 0,
            }
        )
        self._set_up = {}
        self.cycles += ended.cycles
        if ended.error is not None:
            self._error = ended.error
            raise MapStopped(ended.error)
        text = self._machine.read(self._responses, len(sealed) * size).tobytes()
        return [text[at : at + size] for at in range(0, len(text), size)]

    def close(self) -> None:
        self._machine.close()


class Sealed(Closing):
    """A backend that seals requests for a device, and opens its responses."""

    def __init__(self, carrier: Carrier, session: Session) -> None:
        self.carrier, self.session = carrier, session
        self.config, self.first = carrier.config, session.number

    def run(self, requests: Sequence[Request]) -> list[Response]:
        answers = self.carrier.carry(self.session.seal(requests))
        numbers = range(self.session.number - len(requests), self.session.number)
        each = zip(numbers, answers, requests, strict=True)
        return [self.session.open(*one) for one in each]

    def close(self) -> None:
        self.carrier.close()


#: opens a device with a configuration and keys
Opens = Callable[[OmapConfig, Keys], Carrier]


def open_backend(backend: str | Opens, config: OmapConfig, keys: Keys | None = None) -> MapBackend:
    """Return a backend with a new map: one of `BACKENDS`, or the device that is opened.

    Raises ValueError for another name.
    """
    keys = fresh_keys() if keys is None else keys
    if backend == "golden":
        return GoldenBackend(config, keys)
    if backend == "model":
        return ModelBackend(config, FixedLatency(315, config.host_bus_bytes), keys)
    if backend == "device":
        backend = ModelCarrier
    if isinstance(backend, str):
        raise ValueError(
            f"backend must be one of {', '.join(BACKENDS)}, or what opens a device, not {backend!r}; "
            "penstock.engines.omap.machines.hardware opens rtl, netlist, pysim and board"
        )
    return Sealed(backend(config, keys), Session(config, keys.session))
