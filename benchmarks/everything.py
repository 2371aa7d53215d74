"""Runs all benchmarks and rewrites the generated parts of benchmarks/measured.md; see `benchmarks/all`."""

from __future__ import annotations

import importlib

from common import main
from page import names

MODULES = (
    *("reproduce", "accuracy", "simulation", "model_speed", "explore", "verilog_time", "loads"),
    *("postgres_read", "qr_refit", "fit_ratios", "index", "pim_accuracy", "pim_golden"),
    *("omap", "omap_hbm", "omap_obliviousness", "omap_served", "omap_timing", "area"),
)


if __name__ == "__main__":
    sections = [made for module in MODULES for made in importlib.import_module(module).SECTIONS]
    if sorted(names()) != sorted(section.name for section in sections):
        raise ValueError("benchmarks/measured.md has other parts than the benchmarks make")
    main(sections, __doc__, whole=True)
