"""The distribution of another's engine (`tests/support/outside`), as if it were installed."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["KERNEL", "installed"]

PACKAGE = Path(__file__).resolve().parents[1] / "outside"
KERNEL = """import penstock as ps

@ps.tally(gain=3)
def sums(x: ps.Words["n"]):
    return ps.total(x)
"""


def installed(folder: Path) -> dict[str, str]:
    """Return variables of an environment in which it is; its record lies in `folder`."""
    info = folder / "penstock_tally-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock-tally\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[penstock.engines]\ntally = penstock_tally.engine:TallyingEngine\n"
        "[penstock.dialects]\ntally = penstock_tally.dialect:DIALECT\n"
    )
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(PACKAGE)])}
