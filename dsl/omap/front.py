"""Maps as text: their parameters are the types of keys and values, their one line the capacity."""

from dataclasses import dataclass
from typing import Any

from lark import Token

from ..core import text
from ..core.builder import GraphBuilder, Ref
from ..core.diagnostics import KernelError, Span
from ..core.hints import closest
from .kernel import MapKernel, check_capacity, check_size

_USAGE = "map sessions(key: u64, value: bytes[8])"


@dataclass
class TextMap(text.Written, MapKernel):
    """A map that a text declares."""

    def check_header(self) -> None:
        self.check_names()
        if len(self.parameters) != 2 or self.parameters[1].kind != "bytes":
            place = self.parameters[2].span if len(self.parameters) > 2 else self.name_span
            raise self._bad(f"the map {self.name} has not one key and one value", place, _USAGE)
        key, value = self.parameters
        if key.dims:
            raise self._bad("a key has no size", key.span, _USAGE)
        sizes = value.dims
        if len(sizes) != 1 or isinstance(sizes[0], str):
            raise self._bad("the size of a value is a number of bytes", value.span, _USAGE)
        self.key = key.kind
        self.value_bytes = check_size(sizes[0], value.span, self.source)

    def set_statements(self, options: list[Any]) -> None:
        lines = _Lines(self)
        lines.run()
        if lines.capacity is None:
            raise self._bad(
                f"the map {self.name} has no capacity",
                self.name_span,
                "the line below says how many items it holds: `capacity = 1000`",
                usage=False,
            )
        self.capacity = lines.capacity

    def _bad(self, message: str, span: Span, hint: str, usage: bool = True) -> KernelError:
        return self.error("E470", message, span, hint=f"write `{hint}`" if usage else hint)


class _Lines(text.Body):
    """Runs a map's lines, of which there is one: `capacity = 1000`."""

    def __init__(self, kernel: TextMap) -> None:
        super().__init__(kernel, GraphBuilder(kernel.dialect, [], {}, kernel.source))
        self.capacity: int | None = None

    def operator(self, symbol: str, values: list[Any], span: Span) -> Any:
        """A power of whole numbers is one as well, as in `2**20`."""
        if symbol == "**" and all(isinstance(v, int) and 0 <= v <= 1 << 30 for v in values):
            base, exponent = values
            return base ** min(exponent, 64)
        return super().operator(symbol, values, span)

    def assign(self, token: Token, value: Any) -> None:
        span = text.span_of(self.kernel.file, token)
        if str(token) != "capacity":
            raise self.kernel.error(
                "E470",
                f"a map has no {token}",
                span,
                hint=closest(str(token), ["capacity"]) or "it has a capacity: `capacity = 1000`",
            )
        super().assign(token, value)  # twice is a mistake
        number = self.builder.number(value) if isinstance(value, Ref) else value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        self.capacity = check_capacity(number, span, self.kernel.source)

    def update(self, token: Token, value: Any, span: Span) -> None:
        raise self.kernel.error(
            "E470",
            f"a map has no values to compute, and {token} none to become",
            text.span_of(self.kernel.file, token),
            hint="it has a capacity: `capacity = 1000`",
        )
