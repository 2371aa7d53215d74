"""The codes of diagnostics: one page each in `pages/`, whose heading is the title.

`python -m penstock.dsl.core.codes docs/diagnostics.md` writes the list for the documentation.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from .diagnostics import Span, error
from .hints import closest

__all__ = ["codes", "document", "explain"]

_PAGES = Path(__file__).with_name("pages")
_GROUPS = {
    "E1": "Files and syntax",
    "E2": "Names, functions and operators",
    "E3": "Shapes",
    "E40": "Parameters and returned values",
    "E41": "Parameters and returned values",
    "E42": "Merges",
    "E43": "Termination",
    "E44": "Epochs and starts",
    "E45": "Fit kernels",
    "E5": "Options of a run",
    "E60": "Planning",
    "E61": "Columns",
    "E7": "Data sources",
    "E82": "Boards",
    "E8": "Running",
    "E9": "The command line",
    "W": "Warnings",
}


@cache
def codes() -> dict[str, str]:
    """Return all codes with their titles, in order."""
    found = {}
    for page in sorted(_PAGES.glob("*.md")):
        heading = page.read_text(encoding="utf-8").partition("\n")[0]
        found[page.stem] = heading.partition(": ")[2]
    return found


def explain(code: str) -> str:
    """Return the page of a code, as Markdown. Raises KernelError (E901) for an unknown one."""
    wanted = code.strip().upper()
    if wanted not in codes():
        hint = closest(wanted, codes()) or "docs/diagnostics.md lists them all"
        raise error("E901", f"there is no diagnostic {code}", Span.whole("explain"), hint=hint)
    return (_PAGES / f"{wanted}.md").read_text(encoding="utf-8")


def document() -> str:
    """Return the list of all diagnostics with their pages, as Markdown."""
    lines = [
        "# Diagnostics",
        "",
        "Every message about a kernel, its data or its options has a code; `penstock explain CODE` prints its page. Both front",
        "ends give the same codes and messages. This file is written by `python -m penstock.dsl.core.codes docs/diagnostics.md`.",
    ]
    group = ""
    for code in codes():
        prefix = next(key for key in _GROUPS if code.startswith(key))
        if _GROUPS[prefix] != group:
            group = _GROUPS[prefix]
            lines += ["", f"## {group}"]
        lines += ["", "##" + explain(code).rstrip()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
