"""The engine of oblivious maps."""

from .engine import MappingEngine

ENGINE = MappingEngine()
