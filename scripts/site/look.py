"""Looks at every page of the site as a reader does:  look.py FOLDER [PICTURES]

In Debian's Chromium at 480 and 1,400 pixels, light and dark: no page is wider than the window, none asks another host for anything,
and axe-core finds no text with a contrast below 4.5 : 1. With PICTURES, each page is saved there as PNG.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

WIDTHS, COLOURS = (480, 1400), ("light", "dark")
#: without what passed, and without a second copy of each style sheet: two thirds of axe's time
RULES = {
    "runOnly": ["color-contrast", "image-alt", "link-name"],
    "resultTypes": ["violations"],
    "preload": False,
}


def problems(page: Page, file: Path, pictures: Path | None, name: str) -> list[str]:
    asked: list[str] = []
    note = lambda r: asked.append(r.url) if r.url.startswith("http") else None
    page.on("request", note)
    page.goto(file.as_uri())
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    found = [f"{wide} pixels too wide"] if wide > 0 else []
    for violation in Axe().run(page, options=RULES).response["violations"]:
        texts = [node["html"][:90] for node in violation["nodes"][:2]]
        found.append(f"{violation['id']}, {len(violation['nodes'])} times: {' · '.join(texts)}")
    if pictures is not None:
        page.screenshot(path=pictures / f"{name}.png")
    page.remove_listener("request", note)
    return found + [f"asks {url}" for url in asked]


def main() -> int:
    folder, pictures = Path(sys.argv[1]).resolve(), Path(sys.argv[2]) if len(sys.argv) > 2 else None
    count, files = 0, sorted(folder.rglob("*.html"))
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        for width, colours in product(WIDTHS, COLOURS):
            view = {"width": width, "height": 900}
            page = browser.new_page(viewport=view, color_scheme=colours)
            for file in files:
                at = file.relative_to(folder).with_suffix("").as_posix().replace("/", "-")
                name = f"{at}-{width}-{colours}"
                for problem in problems(page, file, pictures, name):
                    print(f"{name}: {problem}", flush=True)
                    count += 1
            page.close()
            print(f"{len(files)} pages at {width} pixels, {colours}", flush=True)
    print(f"{count} problems")
    return bool(count)


if __name__ == "__main__":
    sys.exit(main())
