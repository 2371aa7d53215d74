"""The engine of oblivious maps."""

from .registration import MappingEngine

ENGINE = MappingEngine()
