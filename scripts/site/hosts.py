"""Names what pages of the site would ask other hosts for, and what they show of Click's insides:  hosts.py FOLDER

Links that a reader clicks are fine; scripts, styles, fonts, images and frames are not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

OTHER = re.compile(r"(?:https?:)?//")
IMPORTED = re.compile(
    r"url\(\s*[\"']?((?:https?:)?//[^)\"']+)|@import\s+[\"']((?:https?:)?//[^\"']+)"
)


class _Loaded(HTMLParser):
    """What a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        names = ("src", "srcset", "data", "poster")
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            names = ("href",)
        self.found += [text for name in names if OTHER.match(text := given.get(name) or "")]


def loaded(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".html":
            page = _Loaded()
            page.feed(whole := path.read_text(encoding="utf-8"))
            inside = [">Sentinel."] if ">Sentinel." in whole else []
            yield from (f"{path}: {text}" for text in page.found + inside)
        elif path.suffix == ".css":
            text = path.read_text(encoding="utf-8")
            yield from (f"{path}: {a or b}" for a, b in IMPORTED.findall(text))


if __name__ == "__main__":
    problems = list(loaded(Path(sys.argv[1])))
    print(*problems, sep="\n", end="\n" if problems else "")
    sys.exit(bool(problems))
