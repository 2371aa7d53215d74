"""Runs in folders: what was computed as `result.npz`, and the score as data. Nothing in them is code."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from penstock.designs.folder import MANIFEST, folder_error, read_folder, sealed, unfit
from penstock.engines.score import ScoreError, Scoring
from penstock.models.inputs import Input
from penstock.output import as_npz

#: says in a manifest that the folder holds a run
KIND = "run"
_AGAIN = "write it again with run.save"
_RUN = Input("a run that this version knows", _AGAIN, unfit)


def run_files(
    kernel: str,
    engine: str,
    result: Mapping[str, np.ndarray],
    names: Mapping[str, Any],
    facts: Mapping[str, Any],
    scoring: Scoring | ScoreError,
) -> dict[str, bytes]:
    """Return the files of a run's folder: `result.npz`, with arrays `result.NAME` and `model.NAME` (models that its score uses), and `manifest.json`.

    `names`: as of `Design.names`; `facts`: as of `Run.facts`; `scoring`: how it scores new rows, or the error that says why it does not.
    """
    arrays = {f"result.{name}": np.asarray(value) for name, value in result.items()}
    document, why = None, ""
    if isinstance(scoring, Scoring):
        document = scoring.to_json()
        arrays |= {f"model.{name}": value for name, value in scoring.models.items()}
    else:
        why = scoring.diagnostic.message
    manifest = {
        "kind": KIND,
        "engine": engine,
        "kernel": kernel,
        "facts": dict(facts),
        "names": dict(names),
        "scoring": document,
        "unscored": why,
    }
    return sealed(manifest, {"result.npz": as_npz(arrays)})


def used(folder: object) -> AbstractContextManager[None]:
    """Turn what an engine raises for a score that no engine has written into FolderError (E806)."""
    return _RUN.parsing(folder)


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
    with _RUN.parsing(place):
        parts: dict[str, dict[str, np.ndarray]] = {"result": {}, "model": {}}
        for name, value in _RUN.arrays(files["result.npz"], place).items():
            kind, _, variable = name.partition(".")
            if value.dtype.kind not in ("biuf" if kind == "model" else "biufSU"):
                raise TypeError(f"{name} holds {value.dtype}")
            parts[kind][variable] = value
        for fact in manifest["facts"].values():
            if not isinstance(fact, str | int | float):
                raise TypeError("its facts are others than a run has")
        document = manifest["scoring"]
        scoring = None if document is None else Scoring.from_json(document, parts["model"])
    return manifest, parts["result"], scoring
