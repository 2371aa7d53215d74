"""What to do about new values and batches that do not fit: hints of diagnostics, with the names and sizes at hand."""

from __future__ import annotations

from ..core import dims as D

__all__ = ["merges", "new_value"]


def new_value(name: str, have: D.Shape, want: D.Shape) -> str:
    """How to bring a model's new value to the model's shape."""
    if len(have) == len(want) == 2 and have == want[::-1]:
        return "transpose it: (...).T"
    if not want:
        return "sum(...) makes a scalar of it; or declare the model with these dimensions"
    why = "; is there a sum or @ too many?" if len(have) < len(want) else ""
    return f"the new value needs the model's shape, as in `{name} - rate * g`, where g is {D.show(want)} too{why}"


def merges(one: int, other: int) -> str:
    """How to make two merges span the same batch."""
    calls = [f"merge(v, {count})" if count else "merge(v)" for count in (one, other)]
    return f"write {calls[0]} in both places, or {calls[1]}"
