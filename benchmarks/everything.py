"""Runs all benchmarks and rewrites the generated parts of benchmarks/measured.md; see `benchmarks/all`."""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from time import perf_counter

from common import Options, Section
from page import differences, names, rewrite

MODULES = (
    "reproduce",
    "formats",
    "accuracy",
    "simulation",
    "model_speed",
    "explore",
    "verilog_time",
    "postgres_read",
    "qr_refit",
    "fit_cpu",
    "fit_ratios",
    "index",
    "pim_accuracy",
    "pim_golden",
    "omap",
    "omap_obliviousness",
)


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks/all",
        description="Runs the benchmarks and rewrites the generated parts of benchmarks/measured.md.",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--timings",
        action="store_true",
        help="only what depends on this machine's speed; nothing else should run beside it",
    )
    kind.add_argument(
        "--counts",
        action="store_true",
        help="only what does not: cycles, ratios, estimates, equality, accuracy",
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, printed instead of written"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing: say which lines of the page differ; exit code 1 if any do",
    )
    parser.add_argument("parts", nargs="*", help="only these parts of the page, by their names")
    return parser.parse_args()


def main() -> int:
    given = _given()
    if unknown := sorted(set(given.parts) - set(names())):
        sys.exit(f"no part {unknown[0]}: there are {', '.join(names())}")
    if given.quick and given.check:
        sys.exit("--quick numbers are not those of the page")
    sections: list[Section] = [
        section for module in MODULES for section in importlib.import_module(module).SECTIONS
    ]
    if sorted(names()) != sorted(section.name for section in sections):
        raise ValueError("benchmarks/measured.md has other parts than the benchmarks make")
    failed = 0
    for section in sections:
        if (given.timings and not section.timed) or (given.counts and section.timed):
            continue
        if given.parts and section.name not in given.parts:
            continue
        begin = perf_counter()
        try:
            text = section.make(Options(given.quick))
        except Exception:  # the others are still worth having
            traceback.print_exc()
            failed += 1
            continue
        if given.check:
            wrong = differences(section.name, text)
            failed += bool(wrong)
            if wrong:
                print(f"benchmarks/measured.md, {section.name}:", *wrong, sep="\n  ", flush=True)
        elif given.quick:
            print(f"## {section.name}\n\n{text}\n", flush=True)
        else:
            rewrite(section.name, text)
        print(f"{section.name}: {perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
