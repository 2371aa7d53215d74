"""`ps.ObliviousMap(key=ps.u64, value=ps.bytes(256), capacity=1 << 20)`: what a map holds.

As text:

    map sessions(key: u64, value: bytes[256])
      capacity = 2**20
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.constants import kind_of
from ..core.diagnostics import Diagnostic, Span, error
from ..core.kernel import AnyKernel
from ..core.places import caller_span, tree

#: the largest map that is planned
_MOST = 1 << 30


@dataclass(frozen=True)
class KeyType:
    """A type of keys: one of `models.omap.config.KEYS`."""

    kind: str


#: keys of 64 bits, as in `ObliviousMap(key=ps.u64, …)`
u64 = KeyType("u64")
#: keys of any text: the client hashes them
text = KeyType("text")


@dataclass(frozen=True)
class Bytes:
    size: int


def bytes(size: int) -> Bytes:
    """Return the type of values of `size` bytes: a multiple of 8, from 8 to 1024. `key=ps.bytes`: keys of any bytes.

    Raises KernelError: E470 for another size.
    """
    return Bytes(check_size(size, caller_span()))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_size(size: Any, span: Span, source: str | None = None) -> int:
    """Return the bytes of a value. Raises KernelError (E470) for a size that no value has."""
    if not _whole(size) or not 8 <= size <= 1024 or size % 8:
        raise error(
            "E470",
            f"a value cannot have the size {size if _whole(size) else kind_of(size)}",
            span,
            hint="a value has a multiple of 8 bytes, from 8 to 1024",
            source=source,
        )
    return int(size)


def check_capacity(capacity: Any, span: Span, source: str | None = None) -> int:
    """Return how many items a map holds. Raises KernelError (E470) for a number that no map holds."""
    if not _whole(capacity) or not 1 <= capacity <= _MOST:
        raise error(
            "E470",
            f"a map cannot hold {capacity:,} items"
            if _whole(capacity)
            else f"the capacity of a map cannot be {kind_of(capacity)}",
            span,
            hint=f"the capacity is a whole number from 1 to {_MOST:,}",
            source=source,
        )
    return int(capacity)


@dataclass
class MapKernel(AnyKernel):
    """A map: its name, the bytes of its values, how many items it holds, and what names them
    (`models.omap.config.KEYS`)."""

    value_bytes: int = 8
    capacity: int = 1
    key: str = "u64"
    keyword = "map"
    title = "oblivious map"
    #: opens a map, by backend; the engine enters it when it is found
    opens: ClassVar[Callable[[MapKernel, str], Any]]

    def open(self, backend: str = "golden") -> Any:
        """Return an empty map in this process, a `penstock.host.omap.ObliviousMap`; `backend`: as it takes it."""
        return type(self).opens(self, backend)

    def check(self, dims: Mapping[str, int] | None = None) -> list[Diagnostic]:
        self.check_dims(dims or {})
        return []


def _name(span: Span) -> str:
    """Return the name that the declaration is assigned to."""
    module = tree(span.file)
    for node in ast.walk(module) if module is not None else ():
        if isinstance(node, ast.Assign) and node.lineno <= span.line <= (node.end_lineno or 0):
            if isinstance(node.targets[0], ast.Name):
                return node.targets[0].id
    return "map"


def ObliviousMap(*, key: Any = u64, value: Any, capacity: int, name: str = "") -> MapKernel:
    """Declare a map whose bulk lies encrypted in memory that others see, and which shows nothing.

    * `key`: `ps.u64`, `ps.text` or `ps.bytes`; the latter are hashed to 128 bits by the client.
    * `value`: `ps.bytes(n)`.
    * `capacity`: how many items it holds, 1 to 2**30.
    * `name`: of the map; without it, that of the variable.

    Raises KernelError: E470 for another key, value or capacity.
    """
    place = caller_span()
    key = KeyType("bytes") if key is bytes else key
    if not isinstance(key, KeyType):
        raise error(
            "E470",
            f"{kind_of(key)} is not a type of keys",
            place,
            hint="write key=ps.u64, key=ps.text or key=ps.bytes",
        )
    if not isinstance(value, Bytes):
        raise error(
            "E470",
            f"{kind_of(value)} is not a type of values",
            place,
            hint="write value=ps.bytes(8), with the bytes of a value",
        )
    check_capacity(capacity, place)
    return MapKernel(
        name or _name(place), place.file, None, [], place, value.size, capacity, key.kind
    )
