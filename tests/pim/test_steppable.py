"""Recurrences in folders of designs: what the device and the host cannot step is refused when it is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock import api
from penstock.designs.folder import FolderError, sealed

EXAMPLES = Path(__file__).parents[2] / "examples"
Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    design = api.compile(EXAMPLES / "retnet.psk", "small", dims={"k": 32, "v": 32})
    return design.files()


def _set(*path: Any, to: Any) -> Callable[[Manifest], None]:
    def change(manifest: Manifest) -> None:
        inner: Any = manifest
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = to

    return change


def _grown(manifest: Manifest) -> None:
    """A result of 25,000,000 numbers, of a vector that no operand is."""
    recurrent = manifest["recurrent"]
    recurrent["dims"][1][1], recurrent["passes"][0]["d"] = [5000], None
    recurrent["nodes"].append(["outer", [1, 1], {}])
    recurrent["output"] = len(recurrent["nodes"]) - 1


RECURRENT = "recurrent"
WRONG: dict[str, tuple[Callable[[Manifest], None], str]] = {
    "a mode": (_set(RECURRENT, "mode", to="chaos"), "no recurrence 'chaos'"),
    "an operation": (_set(RECURRENT, "nodes", 8, to=["os.system", [2], {}]), "os.system"),
    "a circle": (_set(RECURRENT, "nodes", 2, to=["exp", [2], {}]), "cycle"),
    "a node": (_set(RECURRENT, "passes", 0, "k", to=10**9), "IndexError"),
    "a node's name": (_set(RECURRENT, "nodes", 2, 2, "name", to="x"), "KeyError: 'x'"),
    "a type": (_set(RECURRENT, "dims", 2, 1, to=[[1]]), ""),
    "a dimension": (_set(RECURRENT, "dims", 2, 1, to=["z"]), "KeyError: 'z'"),
    "an operand's size": (_set(RECURRENT, "dims", 2, 1, to=[7]), "broadcast"),
    "a size": (_set(RECURRENT, "sizes", to=[10**6, 32]), ""),
    "no size": (_set(RECURRENT, "sizes", to=[0, 32]), ""),
    "a large value": (_grown, "gives the shape"),
    "heads": (_set("heads", to=10**9), "rows of banks that have 2"),
    "requests": (_set("batch", to=-1), "rows of banks that have 2"),
    "a layer": (_set("layers", to=[0] * 9), "rows of banks that have 2"),
    "a layer that there is not": (_set("layers", to=[7]), "IndexError"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_stepped(what: str, files: dict[str, bytes], tmp_path: Path) -> None:
    """In one diagnostic: before, a report of the design, or its run, ended in a traceback, or did not end."""
    change, said = WRONG[what]
    manifest = json.loads(files["manifest.json"])
    del manifest["files"], manifest["sha256"]
    change(manifest)
    rest = {name: data for name, data in files.items() if name != "manifest.json"}
    for name, data in sealed(manifest, rest).items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(FolderError) as found:
        ps.load(tmp_path, trust=True)
    assert found.value.diagnostic.code == "E806" and said in str(found.value)
