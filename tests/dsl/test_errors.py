"""Whole messages of bad kernels, from both front ends.

One file of `bad/` is one mistake; run this file as a script to write the messages anew, and read the difference.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.dsl.core.diagnostics import Diagnostic, KernelError
from penstock.dsl.core.load import from_text, load_kernel

CASES = sorted(Path(__file__).with_name("bad").glob("*.txt"))
#: mistakes that the front ends cannot but see differently: loops run in Python, and text names the models that get new values
DIFFERENT = ("for", "one_value")


def sections(path: Path) -> dict[str, tuple[str, str]]:
    """The parts of a case: `python` and `text`, each with the message that it gives."""
    found: dict[str, tuple[str, str]] = {}
    for part in path.read_text(encoding="utf-8").split("=== ")[1:]:
        title, _, body = part.partition("\n")
        if title != "message":
            current, source = title, body
        else:
            found[current] = (source, body)
    return found


def diagnose(kind: str, source: str) -> tuple[Diagnostic, str]:
    """Check a kernel in the current folder; returns what was wrong, and the message."""
    with pytest.raises(KernelError) as caught:
        if kind == "python":
            Path("case.py").write_text(source, encoding="utf-8")
            load_kernel("case.py").check()
        else:
            from_text(source, "case.psk").check()
    return caught.value.diagnostic, str(caught.value) + "\n"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_message(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for kind, (source, message) in sections(path).items():
        diagnostic, shown = diagnose(kind, source)
        assert shown == message
        assert shown.count("error[") == 1
        assert re.search(r"(?m)^ *\| \s*\^+$", shown)
        assert "\nhint: " in shown and "penstock explain" not in diagnostic.hint
        found.append(
            (
                diagnostic.code,
                diagnostic.message,
                diagnostic.hint,
                [note.label for note in diagnostic.notes],
            )
        )
    if len(found) == 2 and path.stem not in DIFFERENT:
        assert found[0] == found[1]


def test_enough_kinds() -> None:
    assert len(CASES) >= 100


def rewrite() -> None:
    os.chdir(tempfile.mkdtemp())
    for path in CASES:
        out = ""
        for kind, (source, _) in sections(path).items():
            out += f"=== {kind}\n{source}=== message\n{diagnose(kind, source)[1]}"
        path.write_text(out, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(rewrite())
