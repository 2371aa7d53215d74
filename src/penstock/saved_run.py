"""Runs in folders: what was computed as `result.npz`, and the score as data. Nothing in them is code."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock.engines.score import ScoreError, Scoring
from penstock.output import as_npz
from penstock.saved import MANIFEST, folder_error, read_folder, sealed

__all__ = ["read_run", "run_files"]

#: says in a manifest that the folder holds a run
KIND = "run"
_AGAIN = "write it again with run.save"


def run_files(
    kernel: str,
    engine: str,
    result: Mapping[str, np.ndarray],
    names: Mapping[str, Any],
    facts: Mapping[str, Any],
    scoring: Scoring | ScoreError,
) -> dict[str, bytes]:
    """Return the files of a run's folder; `scoring`: the error where it has none."""
    arrays = {f"result.{name}": np.asarray(value) for name, value in result.items()}
    said, why = None, ""
    if isinstance(scoring, Scoring):
        said = scoring.to_json()
        arrays |= {f"model.{name}": value for name, value in scoring.models.items()}
    else:
        why = scoring.diagnostic.message
    manifest = {
        "kind": KIND,
        "engine": engine,
        "kernel": kernel,
        "facts": dict(facts),
        "names": dict(names),
        "scoring": said,
        "unscored": why,
    }
    return sealed(manifest, {"result.npz": as_npz(arrays)})


def read_run(folder: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray], Scoring | None]:
    """Return the manifest of a run that was saved, its result, and its scoring, None where it has none.

    Raises FolderError (E806), also for the folder of a design.
    """
    place, hint = Path(folder) / MANIFEST, "run.save writes such folders, after design.run"
    if not place.exists():
        raise folder_error(place.parent, f"holds no run: it has no {MANIFEST}", hint)
    manifest, files = read_folder(folder)
    if manifest.get("kind") != KIND:
        raise folder_error(place, "describes a design, and no run of one", hint)
    try:
        with np.load(io.BytesIO(files["result.npz"]), allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
        parts: dict[str, dict[str, np.ndarray]] = {"result": {}, "model": {}}
        for name, value in arrays.items():
            kind, _, own = name.partition(".")
            parts[kind][own] = value
        said = manifest["scoring"]
        scoring = None if said is None else Scoring.from_json(said, parts["model"])
    except Exception as problem:  # whatever is made of what no run has written
        what = f"describes no run that this version knows ({type(problem).__name__}: {problem})"
        raise folder_error(place, what, _AGAIN) from problem
    return manifest, parts["result"], scoring
