"""Scores of a table's rows, and the files that hold them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.host.sources import SourceError
from penstock.output import as_npz


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of a table's visible rows, in row order.

    `name`: the score's; `values`: float64, masked where a row was skipped (NULL); `block`, `line`: where each row lies, the
    line pointer counted from 1; `run`: what computed them. As an array they are `values` with NaN for NULL.
    """

    name: str
    values: np.ma.MaskedArray
    block: np.ndarray
    line: np.ndarray
    run: Any

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.values.filled(np.nan), dtype)

    def __repr__(self) -> str:
        null = int(np.ma.getmaskarray(self.values).sum())
        return f"<Scores {self.name}: {len(self):,} rows, {null:,} of them NULL, on {self.run.backend}>"


def check_suffix(path: str) -> str:
    """Return the suffix of a file of scores. Raises SourceError for one that there is not."""
    suffix = path.lower().rpartition(".")[2]
    if suffix in ("csv", "npz", "parquet"):
        return suffix
    hint = "write --out scores.csv, scores.npz or scores.parquet"
    raise SourceError(f"--out {path}: scores are written as CSV, NPZ or Parquet", hint, code="E701")


def encoded(path: str, scores: Scores) -> bytes:
    """Return the file of scores for a path. Raises SourceError for a suffix that there is not."""
    import io

    suffix = check_suffix(path)
    memory, places = io.BytesIO(), {"block": scores.block, "line": scores.line}
    if suffix == "csv":
        null = np.ma.getmaskarray(scores.values)
        texts = [
            "" if n else repr(v) for n, v in zip(null, scores.values.data.tolist(), strict=True)
        ]
        rows = zip(scores.block.tolist(), scores.line.tolist(), texts, strict=True)
        lines = [f"block,line,{scores.name}", *(f"{b},{l},{t}" for b, l, t in rows)]
        return ("\n".join(lines) + "\n").encode()
    if suffix == "npz":
        return as_npz({**places, scores.name: np.asarray(scores)})
    import pyarrow as arrow
    from pyarrow import parquet

    values = arrow.array(scores.values.data, mask=np.ma.getmaskarray(scores.values))
    parquet.write_table(arrow.table({**places, scores.name: values}), memory)
    return memory.getvalue()
