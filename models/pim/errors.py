"""What stops a device with state-update units."""

from ..errors import HardwareCode


class PimError(HardwareCode):
    """Errors of the engine's own: defects of the schedule, and results that leave float32."""

    PIM_TIMING = 120, "a command came earlier than the DRAM allows"
    PIM_STATE = 121, "a command came to rows that are in the wrong state"
    PIM_RANGE = (
        122,
        "a sum of the units' results is beyond float32 or their format, or no number",
        "--on-overflow saturate takes the end of the range in its place, or 0, and counts it",
        "E841",
    )
    PIM_PROGRAM = (
        123,
        "the program has no END in its words, a command without a cycle to wait, or other results than stated",
    )
