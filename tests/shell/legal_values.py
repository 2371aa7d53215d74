"""The table of legal values in `docs/reference/registers.md`, made from the engines' register maps: `python tests/shell/legal_values.py PAGE`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from testbench.register_images import CASES, case

BEGIN, END = (
    "<!-- python tests/shell/legal_values.py docs/reference/registers.md -->\n",
    "<!-- end -->",
)
TITLES = {
    "training": "`analytics`",
    "keys": "`qr`, over keys",
    "columns": "`qr`, over columns",
    "recurrence": "`pim`",
    "map": "`omap`",
}


def rows() -> Iterator[str]:
    """Yield the table's lines: of each register its bits, what it is, least and greatest value, its multiple, its bytes, what lies apart."""
    yield "| engine | register | bits | | least | greatest | multiple of | bytes | apart from |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    with TemporaryDirectory() as folder:
        for kind in CASES:
            for register in case(kind, Path(folder)).design.registers.engine:
                rule = register.rule
                size = f"{rule.stride}" if rule.stride else ""
                size += f" for each of `{rule.count}`" if rule.count else ""
                most = f"{register.most:#x}" if register.most > 1 << 16 else f"{register.most}"
                apart = ", ".join(f"`{name}`" for name in rule.apart)
                cells = (
                    TITLES[kind],
                    f"`{register.name}`",
                    *(str(n) for n in (register.bits, register.doc, rule.least, most)),
                    *(str(rule.multiple) if rule.multiple > 1 else "", size, apart),
                )
                yield f"| {' | '.join(cells)} |"


def page(text: str) -> str:
    """Return the page with a fresh table."""
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return f"{before}{BEGIN}\n{chr(10).join(rows())}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page(path.read_text()))
