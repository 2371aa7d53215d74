"""The generated parts of docs/benchmarks.md: what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`."""

from __future__ import annotations

from common import ROOT

__all__ = ["PAGE", "names", "rewrite"]

PAGE = ROOT / "docs" / "benchmarks.md"


def names() -> list[str]:
    """Return the names of the page's generated parts, in order."""
    return [line.removeprefix("<!-- begin ").removesuffix(" -->") for line in PAGE.read_text().splitlines() if line.startswith("<!-- begin ")]


def rewrite(name: str, text: str) -> None:
    """Put `text` into the part of that name. Raises ValueError where the page has no such part."""
    page = PAGE.read_text()
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"{PAGE.name} has no part {name!r}")
    head, rest = page.split(begin)
    PAGE.write_text(f"{head}{begin}{text.strip()}\n{end}{rest.split(end)[1]}")
