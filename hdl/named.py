"""Dataclasses of signals: what several parts of a block share, each signal with a name and a word."""

from dataclasses import fields
from typing import Any

from amaranth.hdl import ShapeLike, Signal


def named(kind: type, **members: Any) -> Any:
    """Return an instance of a dataclass whose members are signals called as its fields, of the shape that is stated, or else of one bit.

    What is stated for a member and is no shape is the member itself.
    """
    members = dict.fromkeys((field.name for field in fields(kind)), 1) | members
    return kind(**{
        name: Signal(value, name=name) if isinstance(value, ShapeLike) else value
        for name, value in members.items()
    })  # fmt: skip
