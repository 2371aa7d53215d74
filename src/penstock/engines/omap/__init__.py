"""The engine of oblivious maps."""

from .engine import MappingEngine

__all__ = ["ENGINE"]

ENGINE = MappingEngine()
