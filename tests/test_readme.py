"""README's commands and Python lines work where README leaves its reader: in the root of a fresh clone, the program on the path."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, flags=re.M | re.S)
#: builds take minutes of two cores, simulations of a board's whole device too
LONG = ("penstock build", "--backend board", "scripts/demo")
#: it runs this test
SELF = ("scripts/test",)


def commands() -> list[str]:
    lines = [line for kind, text in BLOCKS if not kind for line in text.splitlines()]
    return [
        line.partition("  #")[0].partition("        #")[0].strip()
        for line in lines
        if re.match(r"(scripts/|penstock |pip |\. )", line)
    ]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme") / "clone"
    subprocess.run(
        ["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(folder)], check=True
    )
    return folder


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_all_kinds_of_commands_are_known() -> None:
    found = commands()
    assert len(found) >= 8 and {shlex.split(line)[0] for line in found} <= {
        "scripts/demo",
        "scripts/test",
        "penstock",
        "pip",
        ".",
    }


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=pytest.mark.long if any(part in line for part in LONG) else ())
        for line in commands()
        if line.startswith(("penstock", "scripts")) and not line.startswith(SELF)
    ],
)
def test_commands(line: str, clone: Path) -> None:
    words = shlex.split(line)
    if words[0] == "scripts/demo" and shutil.which("g++") is None:
        pytest.fail("scripts/demo needs g++")
    done = subprocess.run(
        words, cwd=clone, env=environment(), capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("text", [text for kind, text in BLOCKS if kind == "python"])
def test_python(text: str, clone: Path, postgres: str) -> None:
    """The server of the second example is a private one, with the table that it names."""
    if "postgresql://" in text:
        import psycopg

        base = re.sub(r"^(postgres(?:ql)?://[^/]*)/[^?]*", r"\1/postgres", postgres)
        with psycopg.connect(base, autocommit=True) as server:
            server.execute("DROP TABLE IF EXISTS visits CASCADE")
            server.execute(
                "CREATE TABLE visits (a float4 NOT NULL, b float4 NOT NULL, y float4 NOT NULL)"
            )
            server.execute(
                "INSERT INTO visits SELECT i / 40.0, (i % 7) / 7.0, i % 2 FROM generate_series(1, 40) AS i"
            )
            server.execute("VACUUM (FREEZE) visits")
        joined = f"{base}{'&' if '?' in base else '?'}table=visits"
        text = text.replace("postgresql://localhost/shop?table=visits", joined)
    (clone / "example.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=clone,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
