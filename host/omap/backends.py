"""What carries a map's operations out: the models here, or a device at the end of a session (`local`,
`client`)."""

import secrets
from collections.abc import Sequence
from typing import Protocol

from ...models.errors import HardwareError
from ...models.memory import FixedLatency, Memory
from ...models.omap.config import OmapConfig
from ...models.omap.cycles import public, run
from ...models.omap.errors import MapStopped
from ...models.omap.golden import Map, Overflow, Step
from ...models.omap.messages import Keys, Request, Response
from ...sim.machine import Closing
from .devices import GoldenDevice, Powers
from .names import SALT_BYTES

#: backends by name; hardware is handed in by what powers it up (`devices.Powers`)
BACKENDS = ("golden", "model", "device")


def _fresh_keys() -> Keys:
    """Return new keys from the system's generator."""
    return Keys(*(secrets.randbits(128) for _ in range(3)))


class MapBackend(Protocol):
    """Carries out requests, in order. Raises MapStopped."""

    config: OmapConfig
    #: the session's number of the map's first request, not 0 where others filled the map
    first: int
    salt: bytes  #: the salt of the map's keys (`names`)

    def run(self, requests: Sequence[Request]) -> list[Response]: ...

    def close(self) -> None: ...


class GoldenBackend(Closing):
    """The golden model, which keeps items in Python and seals nothing."""

    first = 0

    def __init__(self, config: OmapConfig, keys: Keys | None = None) -> None:
        self.config, self.salt = config, secrets.token_bytes(SALT_BYTES)
        self.map = Map(config, _fresh_keys() if keys is None else keys)
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


def open_backend(backend: str | Powers, config: OmapConfig) -> MapBackend:
    """Return a backend with a new map: one of `BACKENDS`, or a device that is powered up.

    Raises ValueError for another name, Error for a device without the package `cryptography`.
    """
    if backend == "golden":
        return GoldenBackend(config)
    if backend == "model":
        return ModelBackend(config, FixedLatency(315, config.host_bus_bytes))
    # not before: it needs a package that the models do not
    from .local import LocalBackend

    if backend == "device":
        return LocalBackend(config, GoldenDevice)
    if isinstance(backend, str):
        raise ValueError(
            f"backend must be one of {', '.join(BACKENDS)}, or what powers a device up, not "
            f"{backend!r}; penstock.engines.omap.machines.hardware does for rtl, netlist and pysim"
        )
    return LocalBackend(config, backend)
