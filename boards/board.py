"""The Amaranth platform of a target that is a board."""

import importlib
from collections.abc import Callable
from typing import Any

from amaranth.build import Platform

from ..models.target import Target
from .tools import ToolMissing


def make_platform(board: Target) -> Any:
    """Return a new platform of the board. Raises LookupError for boards without one, ToolMissing where its package is not installed."""
    if board.pins.platform is None:
        raise LookupError(f"{board.name} has no open tool chain")
    module, _, name = board.pins.platform.partition(":")
    try:
        kind: Callable[..., Any] = getattr(importlib.import_module(module, __package__), name)
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != "amaranth_boards":
            raise
        raise ToolMissing("amaranth-boards") from None
    if not (isinstance(kind, type) and issubclass(kind, Platform)):
        raise TypeError(f"{name} is no platform of Amaranth's")
    return kind(**dict(board.pins.options))
