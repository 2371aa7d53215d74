"""Every command line of the corpus gives what the golden files say. Removed when the move is over."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
compare = importlib.import_module("compare")
sys.path.pop(0)

CASES = list(compare.cases([]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus")
    compare.inputs(path, compare.HERE.parents[1])
    return path


@pytest.mark.long
@pytest.mark.parametrize(
    ("group", "line"), CASES, ids=[f"{group}: {line}" for group, line in CASES]
)
def test_equal_to_golden(
    group: str, line: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert compare.compared(line, group, False) == []
