"""What MkDocs does beside its own: files of the repository that pages link to become files of the site.

A page links to `../../CONTRIBUTING.md` or `../../examples/svm.py`, which GitHub follows. The site has
such a file under `repository/`: a page of its own if it is Markdown, else the file.
A link to a diagnostic's page, `../../dsl/core/pages/E301.md`, leads to its place on the page of all messages, which is made here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from penstock.dsl.core.codes import document

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "repository/"
MESSAGES = "reference/diagnostics.md"
MESSAGE = re.compile(r"dsl/\w+/pages/([EW]\d+)\.md")
REPORT, SCHEMA = "<!-- report -->", ROOT / "src/penstock/report/outcome.schema.json"
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")


def _place(target: str, page: str) -> str | None:
    """The path in the repository of a link's target, or None where the target is below docs/."""
    here = page.removeprefix(PREFIX) if page.startswith(PREFIX) else f"docs/{page}"
    path = normpath(join(dirname(here), target))
    return None if path.startswith("docs/") and here.startswith("docs/") else path


def _sources(page: str, text: str) -> set[str]:
    return {path for target in LINK.findall(text) if (path := _place(target, page)) is not None}


def _report() -> str:
    """A table of the keys of a report, by its schema."""
    rows = ["| key | holds |", "| --- | --- |"]
    for name, value in json.loads(SCHEMA.read_text())["properties"].items():
        keys = ", ".join(f"`{key}`" for key in value.get("properties", {}))
        rows.append(f"| `{name}` | {'. '.join(filter(None, (keys, value.get('description'))))} |")
    return "\n".join(rows)


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Enter what pages link to, and what these link to."""
    todo = [
        (file.src_uri, Path(file.abs_src_path).read_text()) for file in files.documentation_pages()
    ]
    known: set[str] = set()
    while todo:
        for path in sorted(_sources(*todo.pop()) - known):
            known.add(path)
            if path.startswith("docs/"):
                continue
            if not (ROOT / path).is_file():
                raise PluginError(f"a page links to {path}, which is no file")
            if MESSAGE.fullmatch(path):
                continue
            uri = PREFIX + path
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
            if path.endswith(".md"):
                todo.append((uri, (ROOT / path).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links that leave docs/ to where their files lie in the site; put on pages what is made for them."""
    here = page.file.src_uri
    if here == MESSAGES:
        return f"{markdown}\n{document()}"
    markdown = markdown.replace(REPORT, _report())

    def turned(match: re.Match[str]) -> str:
        path = _place(match[1], here)
        if path is None:
            return match[1]
        if message := MESSAGE.fullmatch(path):
            return f"{relpath(MESSAGES, dirname(here) or '.')}#{message[1].lower()}"
        place = path.removeprefix("docs/") if path.startswith("docs/") else PREFIX + path
        return relpath(place, dirname(here) or ".")

    return LINK.sub(turned, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Leave out the default of an option that has none: mkdocs-click 0.9 shows what Click has in its place."""
    return html.replace("<code>Sentinel.UNSET</code>", "")
