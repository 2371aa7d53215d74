"""The process that a server's function starts: rows from standard input, what is to be written to standard output. Nothing else goes in or out."""

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.sql import models
from penstock.sql.models import Said

_Array = NDArray[Any]
#: by an element's type in PostgreSQL, its numbers as they are sent
_NUMBERS = {21: ">i2", 23: ">i4", 20: ">i8", 700: ">f4", 701: ">f8"}


@dataclass
class Rows:
    """The rows of one group. `skipped`: how many have a NULL."""

    x: list[_Array] = field(default_factory=list)
    y: list[Any] = field(default_factory=list)
    skipped: int = 0

    def features(self) -> _Array:
        return np.concatenate(self.x) if self.x else np.zeros((0, 0))


def main() -> None:
    """Do what is asked, and answer in one line."""
    head = _line()
    answer: dict[str, Any]
    try:
        if head["method"] == "version":
            from penstock.report.versions import versions

            answer = {"version": versions().partition("\n")[0]}
        else:
            groups = _read(head)
            threading.Thread(target=_alone, daemon=True).start()
            answer = _answer(head, groups)
    except Exception as problem:
        error: dict[str, Any] = problem.said if isinstance(problem, Said) else _error(problem)
        hint = models.in_sql(error["hint"] or "", head["method"])
        answer = {"error": {**error, "hint": hint or None}}
    os.write(1, json.dumps(answer).encode() + b"\n")


def _alone() -> None:
    """End where the server's process does."""
    sys.stdin.buffer.read(1)
    os._exit(1)


def _line() -> dict[str, Any]:
    text = sys.stdin.buffer.readline()
    if not text.endswith(b"\n"):
        os._exit(1)
    header: dict[str, Any] = json.loads(text)
    return header


def _numbers(data: bytes, rows: int, kind: int) -> _Array:
    """Return arrays as `array_send` writes them: 12 bytes of head, 8 of the dimension, each element behind its length."""
    size, cell = len(data) // rows, np.dtype([("size", ">i4"), ("value", _NUMBERS[kind])])
    layout = np.dtype([("head", "V20"), ("cells", cell, ((size - 20) // cell.itemsize,))])
    cells = np.frombuffer(data, layout)["cells"]["value"]
    return cells.astype(cells.dtype.newbyteorder("="))


def _read(head: Mapping[str, Any]) -> dict[tuple[str, ...], Rows]:
    """Return the rows by group."""
    groups: dict[tuple[str, ...], Rows] = {}
    kind, label = head["element"], 24 + np.dtype(_NUMBERS[head["kind"]]).itemsize
    while (rows := (header := _line())["rows"]) is not None:
        for key in header["skipped"]:
            groups.setdefault(tuple(key), Rows()).skipped += 1
        if not rows:
            continue
        if header["size"] < 20:
            raise Said("the arrays of features are empty", "give at least one feature")
        x = _numbers(sys.stdin.buffer.read(rows * header["size"]), rows, kind)
        y = header["labels"]
        if y is None:
            y = _numbers(sys.stdin.buffer.read(rows * label), rows, head["kind"])[:, 0]
        places: dict[tuple[str, ...], list[int]] = {}
        for place, key in enumerate(header["groups"]):
            places.setdefault(tuple(key), []).append(place)
        for name, at in places.items():
            group = groups.setdefault(name, Rows())
            group.x.append(x[at])
            group.y.append(np.asarray(y)[at])
    return groups


def _answer(head: Mapping[str, Any], groups: Mapping[tuple[str, ...], Rows]) -> dict[str, Any]:
    if not any(group.x for group in groups.values()):
        raise Said("there are no rows to learn from", "each row has a NULL, or there is none")
    method: Callable[..., tuple[list[dict[str, Any]], dict[str, Any]]] = getattr(
        models, head["method"]
    )
    rows: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    for key in sorted(groups, key=lambda k: [(v is None, v or "") for v in k]):
        group = groups[key]
        if not group.x:
            raise Said(
                f"the group {_called(key)} has no rows", "each row has a NULL: leave them out"
            )
        y = np.concatenate(group.y)
        try:
            records, summary = method(group.features(), y, group.skipped, head["options"])
        except Said as problem:
            if key:
                problem.said["message"] = f"group {_called(key)}: {problem.said['message']}"
            raise
        rows += [{**row, "g": key} for row in records]
    used = sum(sum(len(x) for x in g.x) for g in groups.values())
    skipped = sum(g.skipped for g in groups.values())
    counts = {"num_rows_processed": used, "num_missing_rows_skipped": skipped, "num_all_groups": len(groups),
              "num_failed_groups": 0, "total_rows_processed": used, "total_rows_skipped": skipped}  # fmt: skip
    return {"rows": _plain(rows), "summary": _plain({**counts, **summary})}


def _called(key: Sequence[str]) -> str:
    return ", ".join(str(k) for k in key)


def _plain(value: Any) -> Any:
    """Return a value as JSON that PostgreSQL's types read: texts for numbers that are not finite."""
    if isinstance(value, dict):
        return {name: _plain(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return {np.inf: "Infinity", -np.inf: "-Infinity"}.get(value, "NaN")
    return value


def _error(problem: Exception) -> dict[str, Any]:
    """Return a diagnostic as an error of PostgreSQL's; its place is in the detail."""
    from penstock.runs.failures import failure

    report = failure(problem)
    entry = report.errors[0]
    if "hint" not in entry:
        return {"message": report.text, "detail": None, "hint": None}
    lines = [line for line in report.text.split("\n")[1:] if not line.startswith("hint: ")]
    spans = getattr(problem, "spans", ())
    detail = "\n".join(lines) if spans and spans[0].line else None
    return {
        "message": f"{entry['code']}: {entry['message']}",
        "detail": detail,
        "hint": entry["hint"],
    }


if __name__ == "__main__":
    main()
