"""Systems on a chip: an engine with all that it needs on a board."""

from .soc import Soc

__all__ = ["Soc"]
