"""The engine of recurrences: units beside the banks of a DRAM."""

from .engine import PimEngine

ENGINE = PimEngine()
