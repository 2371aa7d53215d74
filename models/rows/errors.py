"""What may be wrong with an index."""

from __future__ import annotations

from ..errors import HardwareCode

__all__ = ["IndexCode"]


class IndexCode(HardwareCode):
    """What stopped a run on indices."""

    VALUE_UNSEEN = (
        49,
        "a category is not among those of the design",
        "--on-unseen skip leaves such rows out and counts them, --on-unseen last takes the model's last row",
        "E849",
    )
