"""The tutorial and the how-to pages, typed as they stand: files are saved, commands run in order in one folder, and print what the page says.

A block with a `title` is a file. In a block of `console`, lines after `$` are commands, the others what
they print: in this order, with lines between them left out, blanks and table frames not counted, `…` for
anything. A block below `<!-- not run: REASON -->` is for the reader alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "docs" / name
    for name in (
        "tutorial/first_kernel.md",
        "howto/compare_designs.md",
        "howto/export.md",
        "howto/fusesoc.md",
        "howto/tables.md",
    )
]
BLOCK = re.compile(
    r"^(?P<unrun><!-- not run: [^\n]+ -->\n)?```(?P<kind>\w*)(?: title=\"(?P<title>[^\"\n]+)\")?\n(?P<text>.*?)^```$",
    re.M | re.S,
)


def blocks(page: Path) -> list[re.Match[str]]:
    return list(BLOCK.finditer(page.read_text(encoding="utf-8")))


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with the lines that the page has below it."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        line, _, printed = part.partition("\n")
        yield line, [line for line in printed.splitlines() if line.strip()]


def plain(text: str) -> str:
    return " ".join(re.sub(r"[│╭╮╰╯─┬┴┼├┤]", " ", text).split())


def missing(expected: list[str], printed: str) -> list[str]:
    """The expected lines that do not come, in their order."""
    rest = [plain(line) for line in printed.splitlines()]
    absent = []
    for line in expected:
        pattern = re.compile(".*".join(map(re.escape, plain(line).split("…"))))
        at = next((n for n, given in enumerate(rest) if pattern.fullmatch(given)), None)
        if at is None:
            absent.append(line)
        else:
            rest = rest[at + 1 :]
    return absent


def test_a_line_that_is_not_printed_is_missed() -> None:
    assert missing(["b 1", "c … 3"], "│ a │\n│ b │ 1 │\n c 2 3") == []
    assert missing(["b", "a"], "a\nb") == ["a"]
    assert missing(["b 1"], "b 12") == ["b 1"]


def _served(page: Path, server: str) -> str:
    """Run the page's SQL in a server of the test's; return the source that the page calls `$VISITS`."""
    import psycopg

    base = re.sub(r"^(postgres(?:ql)?://[^/]*)/[^?]*", r"\1/postgres", server)
    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS visits, weights CASCADE")
        for block in blocks(page):
            if (block["title"] or "").endswith(".sql"):
                connection.execute(block["text"])
    return f"{base}{'&' if '?' in base else '?'}table=visits"


#: a simulation of the core is compiled, and run in Icarus
LONG = ("export", "fusesoc")


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.long if p.stem in LONG else (), id=p.stem) for p in PAGES],
)
def test_page(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "80"}
    if any((block["title"] or "").endswith(".sql") for block in blocks(page)):
        environment["VISITS"] = _served(page, request.getfixturevalue("postgres"))
    ran = 0
    for block in blocks(page):
        if block["title"]:
            (tmp_path / block["title"]).parent.mkdir(exist_ok=True)
            (tmp_path / block["title"]).write_text(block["text"], encoding="utf-8")
        if block["unrun"] or block["kind"] != "console":
            continue
        for line, expected in commands(block["text"]):
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", line],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            assert missing(expected, done.stdout + done.stderr) == [], f"{line}\n{done.stdout}"
            ran += 1
    assert ran >= 3
