"""What may be wrong with an index, or with a change of a row."""

from ..errors import HardwareCode


class IndexCode(HardwareCode):
    """What stopped a run on indices."""

    VALUE_UNSEEN = (
        49,
        "a category is not among those of the design",
        "--on-unseen skip leaves such rows out and counts them, --on-unseen last takes the model's last row",
        "E849",
    )


class RowCode(HardwareCode):
    """What stops a run whose rows change. It is told at the run's end, where nothing else stopped it."""

    ROW_OVERFLOW = (
        50,
        "a change of a row leaves the range of the number format",
        "--on-overflow saturate takes the end of the range in its place and counts it; "
        "another --format has a wider range",
        "E841",
    )
