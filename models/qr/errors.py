"""What the engine of fits may find wrong with its jobs."""

from __future__ import annotations

from ..errors import HardwareCode

__all__ = ["FitError"]


class FitError(HardwareCode):
    """What stopped a job; `block` of the report is the job's index in the run. The host packs jobs,
    so each but QR_DOWNDATE is a defect of the host's."""

    QR_DESCRIPTOR = 80, "the job's descriptor contradicts itself", "", "E817"
    QR_COLUMNS = 81, "the job has more columns than the engine, or an empty window", "", "E817"
    QR_ROWS = (
        82,
        "the job has more rows, or a larger label, than the engine's integers hold",
        "",
        "E817",
    )
    QR_ORDER = 83, "rows or labels are out of order", "", "E817"
    QR_MEMO = 84, "the memo is of another method or set of rows, or there is none", "", "E817"
    QR_WINDOW = 85, "the memo is of another byte window, or of other offsets", "", "E817"
    QR_DOWNDATE = (
        86,
        "too little of a triangular factor would be left without the rows removed",
        "train the group afresh",
        "E817",
    )
