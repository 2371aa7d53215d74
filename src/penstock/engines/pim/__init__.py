"""The engine of recurrences: units beside the banks of a DRAM."""

from .registration import PimEngine

ENGINE = PimEngine()
#: the packages of `penstock` that are this engine's alone: all else works without them
PACKAGES = ("dsl.pim", "engines.pim", "hdl.pim", "models.pim")
