"""What stops a device with state-update units."""

from __future__ import annotations

from ..errors import HardwareCode

__all__ = ["PimError"]


class PimError(HardwareCode):
    """Errors of the engine's own; all are defects of the schedule."""

    PIM_TIMING = 120, "a command came earlier than the DRAM allows"
    PIM_STATE = 121, "a command came to rows that are in the wrong state"
