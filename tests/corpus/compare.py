"""Compare today's commands with the golden files: `python tests/corpus/compare.py [--write] [--text] [GROUP | part of a command line …]`.

Prints each case that differs, what of it differs, and at the end how often each path of the record does. --text compares what was printed on success, too.
Runs in a folder of its own; PENSTOCK_CACHE says where compiled simulations are kept. Exit code 1 where anything differs.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cases import GROUPS, inputs  # noqa: E402
from record import record, steady_text  # noqa: E402

GOLDEN = HERE / "golden"


def golden(group: str) -> dict[str, Any]:
    """Return a group's recorded cases by their command line."""
    file = GOLDEN / f"{group}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def differences(old: Any, new: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, golden, today) of everything that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(
                old.get(key, "(absent)"), new.get(key, "(absent)"), f"{at}.{key}".lstrip(".")
            )
    elif _text(old) and _text(new):
        for number, (before, after) in enumerate(
            zip_longest(_lines(old), _lines(new), fillvalue="")
        ):
            if before != after:
                yield f"{at}[{number}]", before, after
    elif old != new:
        yield at, old, new


def _text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _lines(value: list[str]) -> list[str]:
    return steady_text("\n".join(value)).splitlines()


def run_case(line: str, group: str) -> dict[str, Any]:
    """Return a case's record, as it looks after a way through JSON."""
    os.environ.update(COLUMNS="120", TERM="dumb", NO_COLOR="1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: dict[str, Any] = json.loads(json.dumps(record(line, group)))
    return found


def compared(line: str, group: str, text: bool) -> list[tuple[str, Any, Any]]:
    """Return where a case's record differs from the golden one. `text`: also in what a command that went well has printed."""
    old, new = golden(group)[line], run_case(line, group)
    if not text and old["code"] == new["code"] == 0:
        for one in (old, new):
            one.pop("out", None)
            one.pop("err", None)
    return list(differences(old, new))


def cases(chosen: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (group, command line) of the groups, or of the lines that hold one of the texts."""
    for group, lines in GROUPS.items():
        for line in dict.fromkeys(" ".join(line.split()) for line in lines()):
            if (
                not chosen
                or group in chosen
                or any(part in line for part in chosen if part not in GROUPS)
            ):
                yield group, line


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) < 600 else text[:600] + " …"


def main(arguments: list[str]) -> int:
    write, text = "--write" in arguments, "--text" in arguments
    chosen = [part for part in arguments if not part.startswith("--")]
    paths: Counter[str] = Counter()
    wrong = count = 0
    repository = HERE.parents[1]
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        inputs(Path(folder), repository)
        os.chdir(folder)
        for group, line in cases(chosen):
            count += 1
            started = time.perf_counter()
            if write:
                known = golden(group)
                known[line] = run_case(line, group)
                order = [line for _, line in cases([group])]
                GOLDEN.mkdir(exist_ok=True)
                lines = [
                    f" {json.dumps(key, ensure_ascii=False)}: {json.dumps(known[key], ensure_ascii=False, separators=(',', ':'))}"
                    for key in order
                    if key in known
                ]
                (GOLDEN / f"{group}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
                print(
                    f"{time.perf_counter() - started:6.1f} s  {known[line]['code']}  {group}: {line}",
                    flush=True,
                )
                continue
            if line not in golden(group):
                print(f"--- {group}: {line}\n  is not recorded", flush=True)
                wrong += 1
                continue
            found = compared(line, group, text)
            wrong += bool(found)
            if found:
                print(f"--- {group}: {line}", flush=True)
            for at, old, new in found:
                paths[at.split("[")[0]] += 1
                print(f"  {at}\n    golden: {_shown(old)}\n    today:  {_shown(new)}", flush=True)
        os.chdir(repository)
    if paths:
        print("\nhow often each differs:")
        for at, times in paths.most_common():
            print(f"  {times:5}  {at}")
    print(f"{count} cases, {wrong} differ, {time.perf_counter() - begin:.0f} s")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
