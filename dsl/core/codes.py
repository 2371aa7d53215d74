"""The codes of diagnostics: one page each, here in `pages/` or in a dialect's folder, whose heading is the title.

The site shows all of them on docs/reference/diagnostics.md (`document`, which scripts/site/hooks.py calls).
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ...models.plugins import absent
from ..dialect import Dialect, dialects, own_dialects
from .diagnostics import Span, error
from .hints import closest

_PAGES = Path(__file__).with_name("pages")
_GROUPS = {
    "E1": "Files and syntax",
    "E2": "Names, functions and operators",
    "E3": "Shapes",
    "E4": "Parameters and returned values",
    "E5": "Options of a run",
    "E60": "Planning",
    "E610": "Planning",
    "E61": "Columns",
    "E62": "Engines and targets",
    "E63": "Scores of new rows",
    "E7": "Data sources",
    "E82": "Boards",
    "E8": "Running",
    "E9": "The command line",
    "W": "Warnings",
}


def _pages(languages: Iterable[Dialect]) -> dict[str, Path]:
    """The pages by code, in order: common ones and these dialects'; what comes first keeps its code."""
    folders = [_PAGES, *(dialect.pages for dialect in languages if dialect.pages is not None)]
    # packages beside without a keyword of their own have pages too
    folders += sorted(_PAGES.parents[1].glob("*/pages"))
    pages: dict[str, Path] = {}
    for folder in folders:
        pages = {page.stem: page for page in folder.glob("*.md")} | pages
    return dict(sorted(pages.items()))


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].partition(": ")[2]


@cache
def codes() -> dict[str, str]:
    """Return all codes with their titles, in order."""
    return {code: _title(page) for code, page in _pages(dialects().values()).items()}


def _group(code: str) -> str:
    """The heading of a code in the list: that of the longest beginning which has one."""
    groups = _GROUPS | {
        begin: title for dialect in own_dialects() for begin, title in dialect.groups.items()
    }
    return groups[max((begin for begin in groups if code.startswith(begin)), key=len)]


def explain(code: str) -> str:
    """Return the page of a code, as Markdown. Raises KernelError (E901) for an unknown one."""
    wanted = code.strip().upper()
    if wanted not in codes():
        hint = closest(wanted, codes()) or "docs/reference/diagnostics.md says where they all are"
        hint += absent()
        raise error("E901", f"there is no diagnostic {code}", Span.whole("explain"), hint=hint)
    return _pages(dialects().values())[wanted].read_text(encoding="utf-8")


def document() -> str:
    """Return all of Penstock's diagnostics by groups, as Markdown for the site: a page's anchor is its code, as in `#e301`."""
    lines: list[str] = []
    group = ""
    for code, page in _pages(own_dialects()).items():
        if _group(code) != group:
            group = _group(code)
            lines += [f"## {group}", ""]
        heading, _, text = page.read_text(encoding="utf-8").rstrip().partition("\n")
        lines += [f"##{heading} {{#{code.lower()}}}", text, ""]
    return "\n".join(lines)
