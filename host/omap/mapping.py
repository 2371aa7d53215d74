"""A map with the calls of a dictionary, whose operations an engine carries out."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Protocol

from ...models.errors import HardwareError
from ...models.memory import FixedLatency
from ...models.omap.config import OmapConfig
from ...models.omap.golden import Map, Overflow
from ...models.omap.messages import Keys, Operation, Request, Response, Status
from ...models.omap.planner import plan

__all__ = ["GoldenBackend", "MapBackend", "MapStopped", "ObliviousMap", "fresh_keys"]


class MapStopped(Exception):
    """The map has stopped, and answers no more. `error`: why."""

    def __init__(self, error: HardwareError) -> None:
        super().__init__(f"{error.code.meaning}; {error.code.hint}")
        self.error = error


def fresh_keys() -> Keys:
    """Return new keys from the system's generator."""
    return Keys(*(secrets.randbits(128) for _ in range(4)))


class MapBackend(Protocol):
    """Carries out requests, in order. Raises MapStopped."""

    config: OmapConfig

    def run(self, requests: Sequence[Request]) -> list[Response]: ...


class GoldenBackend:
    """The golden model."""

    def __init__(self, config: OmapConfig, keys: Keys | None = None) -> None:
        self.config = config
        self.map = Map(config, fresh_keys() if keys is None else keys)
        self._error: HardwareError | None = None

    def run(self, requests: Sequence[Request]) -> list[Response]:
        if self._error is not None:
            raise MapStopped(self._error)
        try:
            return [step.response for step in self.map.run(requests)]
        except Overflow as problem:
            self._error = HardwareError(problem.code)
            raise MapStopped(self._error) from None


class ObliviousMap(MutableMapping[int, bytes]):
    """A mutable mapping from 64-bit numbers to values of `value_bytes` bytes.

    Parameters
    ----------
    capacity
        Items that it holds.
    key_bytes
        8.
    value_bytes
        A multiple of 8, from 8 to 1024.
    backend
        "golden", or a `MapBackend`.

    Every call is one operation of the map, a `batch` is many. The map itself cannot be listed without
    telling which keys it has: `iter` goes over the keys that this object has put. Setting a new key
    beyond the capacity raises OverflowError, and the map still answers. After `MapStopped` it does
    not.
    """

    def __init__(
        self,
        capacity: int = 1024,
        *,
        key_bytes: int = 8,
        value_bytes: int = 8,
        backend: str | MapBackend = "golden",
    ) -> None:
        if key_bytes != 8:
            raise ValueError(f"key_bytes must be 8, not {key_bytes!r}")
        if isinstance(backend, str):
            if backend != "golden":
                raise ValueError(f'backend must be "golden" or a backend, not {backend!r}')
            config = plan(capacity, value_bytes, memory=FixedLatency(60, 32))
            backend = GoldenBackend(config)
        self._backend = backend
        self.config = backend.config
        self._known: dict[int, None] = {}

    def _one(self, operation: Operation, key: int, value: bytes | None = None) -> Response:
        [response] = self.batch([(operation, key, value)])
        return response

    def batch(self, operations: Iterable[tuple[Operation, int, bytes | None]]) -> list[Response]:
        """Carry out operations (kind, key, value of a PUT or None) in order; return the responses.

        Raises TypeError and ValueError for keys and values that the map does not take, before any of
        them is carried out.
        """
        requests = [self._request(*operation) for operation in operations]
        responses = self._backend.run(requests)
        for request, response in zip(requests, responses, strict=True):
            if request.operation == Operation.PUT and response.status != Status.FULL:
                self._known[request.key] = None
            elif request.operation == Operation.DELETE:
                self._known.pop(request.key, None)
        return responses

    def _request(self, operation: Operation, key: int, value: bytes | None) -> Request:
        if not isinstance(key, int) or isinstance(key, bool):
            raise TypeError(f"a key is an integer, not {type(key).__name__}")
        if not 0 <= key < 1 << 64:
            raise ValueError(f"a key has 64 bits, not {key}")
        size = self.config.value_bytes
        if operation != Operation.PUT:
            return Request(operation, key, bytes(size))
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"a value is bytes, not {type(value).__name__}")
        if len(value) != size:
            raise ValueError(f"a value has {size} bytes, not {len(value)}")
        return Request(operation, key, bytes(value))

    def __getitem__(self, key: int) -> bytes:
        response = self._one(Operation.GET, key)
        if response.status != Status.FOUND:
            raise KeyError(key)
        return response.value

    def __setitem__(self, key: int, value: bytes) -> None:
        if self._one(Operation.PUT, key, value).status == Status.FULL:
            raise OverflowError(f"the map holds {self.config.capacity:,} items already")

    def __delitem__(self, key: int) -> None:
        if self._one(Operation.DELETE, key).status != Status.FOUND:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, int):
            return False
        return self._one(Operation.GET, key).status == Status.FOUND

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._known))

    def __len__(self) -> int:
        return len(self._known)
