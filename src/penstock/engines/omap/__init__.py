"""The engine of oblivious maps."""

from .registration import MappingEngine

ENGINE = MappingEngine()
#: the packages of `penstock` that are this engine's alone: all else works without them
PACKAGES = ("dsl.omap", "engines.omap", "hdl.omap", "host.omap", "models.omap")
