"""Writes the gallery: each example's report, pictured, and the lines of docs/gallery.md between its marks.

    python scripts/site/gallery.py        with an environment that has Penstock and the extra `docs`, and Debian's chromium

A picture is of the report's first two charts, 256 colours at most.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from penstock.dsl.core.load import load_kernel

ROOT = Path(__file__).resolve().parents[2]
PAGE, IMAGES = ROOT / "docs/gallery.md", ROOT / "docs/images/gallery"
BEGIN, END = "<!-- begin gallery -->", "<!-- end gallery -->"
#: each example with the options of `penstock model`
EXAMPLES = {
    "linear.py": "--rows 100000 --dim d=10 --target ulx3s-85f-sdram",
    "logistic.py": "--rows 581102 --dim d=54 --target vu9p",
    "svm.py": "--rows 100000 --dim d=54 --target u55c",
    "ridge.py": "--rows 100000 --dim d=54 --target ulx3s-85f-sdram",
    "mlp.py": "--rows 10000 --dim d=30 --dim h=8 --target vu9p",
    "closed_form.py": "--rows 100000 --dim d=10 --target vu9p",
    "rank_model.py:slots": "--rows 8000 --target vu9p",
    "mamba2.py": "--dim n=128 --dim p=64 --tokens 4",
    "retnet.py": "--dim k=128 --dim v=128 --tokens 4",
    "gla.py": "--dim k=128 --dim v=128 --tokens 4",
    "hgrn2.py": "--dim k=128 --dim v=128 --tokens 4",
    "zamba2.py": "--tokens 4",
    "attention.py:attend": "--dim t=512 --dim d=128 --tokens 4",
}


def report(name: str, options: str, file: Path) -> str:
    """Write an example's report; return the command."""
    line = f"penstock model examples/{name} {options}"
    words = [*line.split()[1:], "--report", str(file), "-q"]
    subprocess.run([sys.executable, "-P", "-m", "penstock", *words], cwd=ROOT, check=True)
    return line


def picture(page: Page, file: Path) -> bytes:
    """The first two charts of a report, as PNG."""
    page.goto(file.as_uri())
    boxes = [figure.bounding_box() for figure in page.query_selector_all("figure")[:2]]
    found = [box for box in boxes if box is not None]
    top, last = found[0], found[-1]
    clip = {
        "x": top["x"] - 8,
        "y": top["y"] - 4,
        "width": top["width"] + 16,
        "height": last["y"] + last["height"] - top["y"] + 8,
    }
    shot = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))
    made = io.BytesIO()
    shot.convert("RGB").quantize(32).save(made, "PNG", optimize=True)
    return made.getvalue()


def entry(name: str, line: str, image: str) -> str:
    plain = name.partition(":")[0]
    module = (ROOT / "examples" / plain).read_text(encoding="utf-8")
    said = module.partition('"""')[2].partition("\n")[0].rstrip('"')
    words = line.split(" --")
    command = " \\\n    --".join([words[0], " --".join(words[1:])]) if len(line) > 96 else line
    title = load_kernel(str(ROOT / "examples" / name)).name
    return f"## {title}\n\n[{plain}](../examples/{plain}): {said}\n\n```\n{command}\n```\n\n![The report's charts: {title}]({image})\n"


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    entries = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as browsers:
        browser = browsers.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 800, "height": 700})
        for name, options in EXAMPLES.items():
            file = Path(folder) / "report.html"
            line = report(name, options, file)
            image = IMAGES / f"{name.partition('.')[0]}.png"
            image.write_bytes(picture(page, file))
            entries.append(entry(name, line, f"images/gallery/{image.name}"))
            print(f"{image.name}: {image.stat().st_size:,} bytes", flush=True)
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    PAGE.write_text(f"{head}{BEGIN}\n\n{chr(10).join(entries)}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
