"""The engine of recurrences: units beside the banks of a DRAM."""

from .registration import PimEngine

ENGINE = PimEngine()
