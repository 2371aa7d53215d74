"""A map with the calls of a dictionary, whose operations a backend carries out."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from ...models.memory import FixedLatency
from ...models.omap.config import OmapConfig
from ...models.omap.messages import Operation, Request, Response, Status
from ...models.omap.planner import plan
from ...sim.machine import Closing
from .backends import BACKENDS, MapBackend, open_backend
from .devices import Powers
from .names import EMPTY, SALT_BYTES, checked, number_of

_MISSING: Any = object()
_OPERATIONS = frozenset(Operation)


def make_request(
    config: OmapConfig, salt: bytes, operation: Operation, key: Any, value: bytes | None = None
) -> Request:
    """Return a request. `salt`: under which keys that are no numbers are hashed. Raises TypeError and ValueError
    for an operation, a key or a value that the map does not take."""
    if not isinstance(operation, int) or isinstance(operation, bool):
        raise TypeError(
            f"an operation is Operation.GET, PUT or DELETE, not {type(operation).__name__}"
        )
    if operation not in _OPERATIONS:
        raise ValueError(f"an operation is Operation.GET, PUT or DELETE, not {operation}")
    operation = Operation(operation)
    key, size = number_of(checked(config.key, key), salt), config.value_bytes
    if operation != Operation.PUT:
        return Request(operation, key, bytes(size))
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"a value is bytes, not {type(value).__name__}")
    # a memoryview's length counts its items, which may have several bytes
    content = bytes(value)
    if len(content) != size:
        raise ValueError(f"a value has {size} bytes, not {len(content)}")
    return Request(operation, key, content)


def load_operations(
    config: OmapConfig, items: Mapping[Any, bytes] | Iterable[tuple[Any, bytes]], records: int = 0
) -> list[tuple[Operation, Any, bytes | None]]:
    """Return the operations that put items, as many as `records` if these are more. Raises TypeError and
    ValueError for a number that there is not."""
    if not isinstance(records, int) or isinstance(records, bool):
        raise TypeError(f"records is an integer, not {type(records).__name__}")
    if records < 0:
        raise ValueError(f"records is 0 or more, not {records}")
    pairs = items.items() if isinstance(items, Mapping) else items
    puts: list[tuple[Operation, Any, bytes | None]] = [(Operation.PUT, *pair) for pair in pairs]
    # nobody else can tell a GET from a PUT
    return puts + [(Operation.GET, EMPTY[config.key], None)] * (records - len(puts))


def check_room(
    config: OmapConfig,
    operations: Iterable[tuple[Operation, Any, bytes | None]],
    responses: Iterable[Response],
) -> None:
    """Raise OverflowError for keys that had no room."""
    keys = [
        checked(config.key, operation[1])
        for operation, response in zip(operations, responses, strict=True)
        if response.status == Status.FULL
    ]
    if keys:
        shown = ", ".join(map(repr, keys[:3])) + (", …" if len(keys) > 3 else "")
        raise OverflowError(f"the map holds {config.capacity:,} items already: not set: {shown}")


class ObliviousMap(Closing, MutableMapping[Any, bytes]):
    """A mutable mapping from 64-bit numbers, text or bytes to values of `value_bytes` bytes.

    * `capacity`: items that it holds.
    * `key`: "u64", "text" or "bytes": what keys are. Text and bytes are hashed (`names`).
    * `value_bytes`: a multiple of 8, from 8 to 1024.
    * `backend`: "golden", "model" or "device" for a new map there; what powers a device up for one on
      hardware, as `penstock.engines.omap.machines.hardware("rtl")` does; or a `MapBackend`. It is closed with
      the map. A device is at the end of a session, which takes the package `cryptography`.

    How many operations there are is public, so every call takes a number of them that does not depend
    on what the map holds: one for `m[k]`, `get`, `in`, `m[k] = v`, `del` and `pop`, two for `setdefault`,
    one a key for `get_many`, `put_many`, `delete_many` and `update`. Those with many keys are one batch:
    the device works on several of their operations at once.

    The device does not tell which keys it has. `iter`, `len`, `==`, `items`, `popitem` and `clear` go
    over the keys that this object has put, a record on the client's side. A map that was used before
    this object was made has no such record; they raise TypeError for it.

    A new key beyond the capacity raises OverflowError, and the map still answers. After `MapStopped` it
    does not. A map that is closed raises ValueError.
    """

    def __init__(
        self,
        capacity: int = 1024,
        *,
        key: str = "u64",
        value_bytes: int = 8,
        backend: str | Powers | MapBackend = "golden",
    ) -> None:
        if isinstance(backend, str) or callable(backend):
            config = plan(capacity, value_bytes, key=key, memory=FixedLatency(60, 32))
            backend = open_backend(backend, config)
        if not hasattr(backend, "run"):
            raise TypeError(
                f"backend is one of {', '.join(BACKENDS)}, what powers a device up, or a MapBackend, "
                f"not {type(backend).__name__}"
            )
        self._backend = backend
        self._closed = False
        self.config, self._salt = backend.config, getattr(backend, "salt", bytes(SALT_BYTES))
        #: those that this object has put, and those whose answer is not there, by their numbers
        self._known: dict[int, Any] | None = None if backend.first else {}
        self._asked: dict[int, Any] = {}

    # operations

    def batch(self, operations: Iterable[tuple[Operation, Any, bytes | None]]) -> list[Response]:
        """Carry out operations (kind, key, value of a PUT or None) in order; return the responses.

        Raises TypeError and ValueError for operations, keys and values that the map does not take,
        before any of them is carried out, and ValueError once the map is closed.
        """
        self._check_open()
        operations = list(operations)
        requests = [make_request(self.config, self._salt, *each) for each in operations]
        if not requests:
            return []
        for request, (_, key, _) in zip(requests, operations, strict=True):
            self._asked[request.key] = checked(self.config.key, key)
        responses = self._backend.run(requests)
        self._note(requests, responses)
        return responses

    def load(
        self, items: Mapping[Any, bytes] | Iterable[tuple[Any, bytes]], *, records: int = 0
    ) -> None:
        """Set the values of many keys as one batch, an operation a record. How many there are is public.

        * `records`: so many are shown, if these are more than the items.

        Raises as `put_many` does, and ValueError for a negative number of records.
        """
        operations = load_operations(self.config, items, records)
        check_room(self.config, operations, self.batch(operations))

    def _note(self, requests: Sequence[Request], responses: Sequence[Response]) -> None:
        """Keep the record of keys."""
        asked, self._asked = self._asked, {}
        if self._known is None:
            return
        for request, response in zip(requests, responses, strict=True):
            if request.operation == Operation.PUT and response.status != Status.FULL:
                self._known[request.key] = asked[request.key]
            elif request.operation == Operation.DELETE:
                self._known.pop(request.key, None)

    def _one(self, operation: Operation, key: Any, value: bytes | None = None) -> Response:
        [response] = self.batch([(operation, key, value)])
        return response

    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        """Return the values of keys, `default` for keys that the map does not have."""
        responses = self.batch([(Operation.GET, key, None) for key in keys])
        return [r.value if r.status == Status.FOUND else default for r in responses]

    def put_many(self, items: Mapping[Any, bytes] | Iterable[tuple[Any, bytes]]) -> None:
        """Set the values of keys. Raises OverflowError where new keys go beyond the capacity; those
        that are not named in it are set."""
        self.load(items)

    def delete_many(self, keys: Iterable[Any]) -> list[bool]:
        """Delete keys; return for each whether it was there."""
        done = self.batch([(Operation.DELETE, key, None) for key in keys])
        return [r.status == Status.FOUND for r in done]

    # a mapping

    def __getitem__(self, key: Any) -> bytes:
        response = self._one(Operation.GET, key)
        if response.status != Status.FOUND:
            raise KeyError(key)
        return response.value

    def __setitem__(self, key: Any, value: bytes) -> None:
        self.put_many([(key, value)])

    def __delitem__(self, key: Any) -> None:
        if self._one(Operation.DELETE, key).status != Status.FOUND:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        try:
            plain = checked(self.config.key, key)
        except (TypeError, ValueError):
            return False
        return self._one(Operation.GET, plain).status == Status.FOUND

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Delete a key and return its value, or `default`; one operation in either case."""
        response = self._one(Operation.DELETE, key)
        if response.status == Status.FOUND:
            return response.value
        if default is _MISSING:
            raise KeyError(key)
        return default

    def setdefault(self, key: Any, default: Any = None) -> bytes:
        """Return a key's value, which is `default` if there was none; two operations in either case."""
        make_request(self.config, self._salt, Operation.PUT, key, default)
        value: bytes = self.get_many([key], default)[0]
        self[key] = value
        return value

    def popitem(self) -> tuple[Any, bytes]:
        """Delete and return the item that this object put last. Raises KeyError where there is none."""
        known = self._listed()
        if not known:
            raise KeyError("the map is empty")
        key = next(reversed(known.values()))
        return key, self.pop(key)

    def clear(self) -> None:
        """Delete all keys that this object has put, an operation a key."""
        self.delete_many(list(self._listed().values()))

    def update(self, other: Any = (), /, **names: bytes) -> None:
        """Set the items of a mapping or of pairs, as one batch."""
        if names and self.config.key != "text":
            raise TypeError("keys are not text: update takes no names")
        pairs = [(k, other[k]) for k in other.keys()] if hasattr(other, "keys") else list(other)
        self.put_many([*pairs, *names.items()])

    def _listed(self) -> dict[int, Any]:
        if self._known is None:
            raise TypeError(
                "a map that was used before cannot be listed: the device does not tell which keys "
                "it has"
            )
        return self._known

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._listed().values()))

    def __len__(self) -> int:
        return len(self._listed())

    def __bool__(self) -> bool:
        return True if self._known is None else bool(self._known)

    # its backend

    def close(self) -> None:
        """End the simulation, or leave the device. The map answers no more."""
        self._closed = True
        self._backend.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the map is closed")
