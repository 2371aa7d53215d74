"""Large modules that stand in several places of a design: Verilator writes their code once."""

from __future__ import annotations

import os
import subprocess

import pytest

from penstock.sim.native.shared import LARGE, shared_modules
from penstock.sim.native.toolchain import _verilate, verilator_root

OPTIONS = ("--cc", "--top-module", "penstock", "--no-timing", "-Wno-fatal", "--x-assign", "fast")


def design(places: int, lines: int) -> str:
    """A design with a module in so many places, each of which has another condition at its port."""
    body = "".join(
        f"  reg [31:0] r{n};\n  always @(posedge clk) r{n} <= {f'r{n - 1} + {n}' if n else 'x'};\n"
        for n in range(lines // 2)
    )
    parts = "".join(
        f"  wire [31:0] y{n};\n  part p{n} (\n      .clk(clk),\n      .x(a[{n}] & b),\n      .y(y{n})\n  );\n"
        for n in range(places)
    )
    total = " ^ ".join(f"y{n}" for n in range(places))
    return (
        f"module part (\n  input wire clk,\n  input wire x,\n  output wire [31:0] y\n);\n{body}"
        f"  assign y = r{lines // 2 - 1};\nendmodule\n\nmodule penstock (\n  input wire clk,\n"
        f"  input wire [31:0] a,\n  input wire b,\n  output reg [31:0] y\n);\n{parts}"
        f"  always @(posedge clk) y <= {total};\nendmodule\n"
    )


def size(folder, source: str, options: list[str]) -> int:
    """Lines of C++."""
    folder.mkdir()
    (folder / "design.v").write_text(source)
    root = verilator_root()
    command = [root / "bin" / "verilator_bin", *OPTIONS, *options, "--Mdir", "made", "design.v"]
    environment = {**os.environ, "VERILATOR_ROOT": str(root)}
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
    return sum(len(file.read_text().splitlines()) for file in folder.glob("made/*.cpp"))


def test_places_share_code(tmp_path):
    two, eight = (shared_modules(design(places, LARGE + 10)) for places in (2, 8))
    assert size(tmp_path / "8", *eight) <= 1.3 * size(tmp_path / "2", *two)


@pytest.mark.parametrize(("places", "lines"), [(1, LARGE + 10), (8, LARGE - 10)])
def test_others_are_as_they_are(places, lines):
    source = design(places, lines)
    assert shared_modules(source) == (source, [])


def test_what_only_looks_like_a_loop(tmp_path):
    """Graphs break it, so that such a design has them."""
    source, last = design(8, LARGE + 10).rsplit("  always @(posedge clk) y <= ", 1)
    source += "  wire [1:0] w;\n  assign w = {w[0], b};\n  always @(posedge clk) y <= w ^ " + last
    source, options = shared_modules(source)
    options = [*options, "-Wwarn-UNOPTFLAT", "-Werror-UNOPTFLAT"]
    with pytest.raises(subprocess.CalledProcessError) as caught:
        size(tmp_path / "alone", source, options)
    assert b"UNOPTFLAT" in caught.value.stderr
    (tmp_path / "design.v").write_text(source)
    _verilate([*OPTIONS, *options], tmp_path)
    assert [*tmp_path.glob("model/*.cpp")]
