"""The table of legal values in `docs/reference/registers.md`, made from the engines' register maps: `python tests/shell/legal_values.py PAGE`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
    "ring": "`analytics`, with a ring",
    "ports": "`analytics`, two ports",
    "rows": "`analytics`, rows in memory",
    "columns ring": "`qr`, over columns, with a ring",
    "kept": "`omap`, with state",
}


def rows() -> Iterator[str]:
    """Yield the table's lines: of each register its bits, what it is, least and greatest value, its multiple, its bytes, what lies apart. Of variants
    those registers that no design of the dialect before has."""
    yield "| engine | register | bits | | least | greatest | multiple of | bytes | apart from |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    known = set[Any]()
    with TemporaryDirectory() as folder:
        for kind, dialect in CASES.items():
            for register in case(kind, Path(folder)).design.registers.engine:
                rule = register.rule
                if (one := (dialect, register.name, register.bits, len(rule.each))) in known:
                    continue
                known.add(one)
                sizes = [f"{rule.size}"] if rule.size else []
                sizes += [f"{size} for each of `{name}`" for name, size in rule.each]
                most = f"{register.most:#x}" if register.most > 1 << 16 else f"{register.most}"
                apart = ", ".join(f"`{name}`" for name in rule.apart)
                cells = (
                    TITLES[kind],
                    f"`{register.name}`",
                    *(str(n) for n in (register.bits, register.doc, rule.least, most)),
                    *(str(rule.multiple) if rule.multiple > 1 else "", ", ".join(sizes), apart),
                )
                yield f"| {' | '.join(cells)} |"


def page(text: str) -> str:
    """Return the page with a fresh table."""
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return f"{before}{BEGIN}\n{chr(10).join(rows())}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page(path.read_text()))
