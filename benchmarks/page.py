"""The generated parts of benchmarks/measured.md: what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`."""

from __future__ import annotations

from difflib import unified_diff

from common import ROOT

__all__ = ["PAGE", "differences", "names", "rewrite"]

PAGE = ROOT / "benchmarks" / "measured.md"


def names() -> list[str]:
    """Return the names of the page's generated parts, in order."""
    return [
        line.removeprefix("<!-- begin ").removesuffix(" -->")
        for line in PAGE.read_text().splitlines()
        if line.startswith("<!-- begin ")
    ]


def differences(name: str, text: str) -> list[str]:
    """Return the lines in which `text` differs from the part of that name: the page's with `-`, those of today with `+`."""
    page = (
        PAGE.read_text()
        .partition(f"<!-- begin {name} -->\n")[2]
        .partition(f"<!-- end {name} -->")[0]
    )
    lines = unified_diff(page.strip().splitlines(), text.strip().splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def rewrite(name: str, text: str) -> None:
    """Put `text` into the part of that name. Raises ValueError where the page has no such part."""
    page = PAGE.read_text()
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"{PAGE.name} has no part {name!r}")
    head, rest = page.split(begin)
    PAGE.write_text(f"{head}{begin}{text.strip()}\n{end}{rest.split(end)[1]}")
