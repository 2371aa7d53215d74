"""The engine of recurrences: units beside the banks of a DRAM."""

from .engine import PimEngine

__all__ = ["ENGINE"]

ENGINE = PimEngine()
