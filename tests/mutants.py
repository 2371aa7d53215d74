"""How many planted defects the tests notice.

    python tests/mutants.py collect [PYTEST-ARGUMENT …]     which test executes which line
    python tests/mutants.py run [--count N] [--seed S] [PART OF A PATH …]
    python tests/mutants.py table [--count N] [--seed S] [PART OF A PATH …]

`collect` runs the suite once, in a copy of this checkout, with a probe at the statement of each mutant
drawn. `run` draws mutants by the seed (tests/support/mutation/kinds.py), and runs the tests that
execute the statement of each, likely judges first, in a process that has collected them once. A mutant
is caught when a test fails that passes without it. It is late when its tests take more than --seconds
of processor time. Sources may be newer than the collection, as long as a mutant's line stays.

Both go on where they ended (`collect --anew` begins again); --again MISSED (or late) tries these once more. `run` prints a line for
each mutant, `table` the sums and what is left. Those of tests/equivalent.toml change nothing, for the
reason that stands there. Everything lies in --folder, outside the checkout.

With --proofs mutants are those of the shared hardware, connections among them
(tests/support/mutation/connections.py), and judged by its proofs alone (tests/proofs/judge.py).
Those that are no design do not count.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

from mutation.connections import CONNECTIONS, connections
from mutation.connections import PACKAGES as SHARED
from mutation.copies import PACKAGES, ROOT, Copy
from mutation.kinds import GROUPS, KINDS, Mutant, changes, drawn, group, mutants, sources
from mutation.record import probes

ENDS = ("caught", "equivalent", "late", "MISSED", "invalid")


def collect(
    folder: Path, checkout: Path, arguments: list[str], wanted: list[Mutant], seconds: float
) -> int:
    """Run the suite, or those tests, and store which executes the lines of mutants; return pytest's
    exit code. A test that takes more seconds of a processor is ended, and what it executed counts."""
    copy, record = Copy(folder / "copy", checkout), folder / "record"
    record.mkdir(exist_ok=True)
    if not (record / "keys.json").exists():  # a collection is of one state of the sources
        copy.renew()
        keys, places = probes(copy.tree, wanted)
        (record / "probes").write_text(json.dumps(places))
        (record / "keys.json").write_text(json.dumps(keys))
    (folder / "cache").mkdir(exist_ok=True)
    command = [copy.tree / "scripts" / "with-postgres", copy.python, "-m", "pytest"]
    command += ["-m", "not long", "-p", "mutation.plugin", "-p", "no:cacheprovider", "-q"]
    told = {"MUTATION_RECORD": str(record), "MUTATION_PROBES": str(record / "probes")}
    told["MUTATION_SECONDS"] = str(seconds)
    ended = subprocess.run(
        [*map(str, command), "--tb=no"] + (arguments or ["-n", "2", "--dist", "worksteal"]),
        cwd=copy.tree,
        env=copy.variables(folder / "cache") | told,
    )
    return ended.returncode


def run(
    folder: Path,
    checkout: Path,
    wanted: list[Mutant],
    cap: float,
    workers: int,
    given: tuple[str, ...] = (),
    written: bool = False,
) -> Iterator[dict[str, object]]:
    """Try mutants, so many at a time; yield each and how it ended."""
    from mutation.record import Record
    from mutation.trial import Bench

    record = None if given else Record(folder / "record")
    (copy := Copy(folder / "copy", checkout)).renew()
    (folder / "cache").mkdir(exist_ok=True)
    files = given or sorted({test.split("::")[0] for test in record.seconds} if record else ())
    files = [name for name in files if (copy.tree / name.split("::")[0]).exists()]
    benches: SimpleQueue[Bench] = SimpleQueue()
    workers = 1 if written else workers
    every = [
        Bench(copy, folder / f"worker{k}", folder / "cache", files, cap, written)
        for k in range(workers)
    ]
    for bench in every:
        benches.put(bench)

    def tried(mutant: Mutant) -> dict[str, object]:
        bench = benches.get()
        try:
            if record and mutant.key not in record.keys:
                return {"key": mutant.key, "end": "late", "by": "it is not collected"}
            told = bench.tried(mutant, record.ordered(mutant) if record else None)
            if record and told["end"] == "caught":
                record.caught(mutant, str(told["by"]))
            return {"key": mutant.key} | told
        finally:
            benches.put(bench)

    with ThreadPoolExecutor(workers) as pool:
        try:
            for future in as_completed([pool.submit(tried, mutant) for mutant in wanted]):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for bench in every:
                bench.close()


def proven(wanted: list[Mutant], workers: int) -> Iterator[dict[str, object]]:
    """Judge mutants by the proofs; yield how each ended."""
    sys.path.insert(0, str(ROOT / "tests" / "proofs"))
    from judge import judged

    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=40) as pool:
        yield from pool.imap_unordered(judged, wanted)


def ends(folder: Path, checkout: Path) -> dict[str, dict[str, object]]:
    """Return how each mutant ended the last time, and which change nothing."""
    file = folder / "results.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    found = {told["key"]: told for told in map(json.loads, lines)}
    reasons = checkout / "tests" / "equivalent.toml"
    for key, reason in tomllib.loads(reasons.read_text() if reasons.exists() else "").items():
        found[key] = found.get(key, {}) | {"end": "equivalent", "by": reason}
    return found


def shown(mutant: Mutant, told: dict[str, object]) -> str:
    place = f"{mutant.module}:{mutant.line}"
    return f"{told['end']:10} {told.get('seconds', 0):6} s  {mutant.key}  {place}  {mutant.text}  [{told['by']}]"


def table(wanted: list[Mutant], found: dict[str, dict[str, object]]) -> str:
    """Return the sums of each group and each kind, as Markdown, and a line for each that is left."""
    rows = [(name, [m for m in wanted if group(m.module) == name]) for name in GROUPS]
    kinds = dict.fromkeys((*KINDS, *CONNECTIONS))
    rows += [(name, [m for m in wanted if m.kind == name]) for name in kinds] + [("all", wanted)]
    lines = [f"| mutants of | drawn | tried | {' | '.join(ENDS)} |", "|---" * 8 + "|"]
    for name, some in rows:
        counted = Counter(str(found[m.key]["end"]) for m in some if m.key in found)
        figures = [len(some), counted.total(), *(counted[end] for end in ENDS)]
        if some:
            lines.append(f"| {name} | {' | '.join(map(str, figures))} |")
    left = [m for m in wanted if m.key in found and found[m.key]["end"] != "caught"]
    return "\n".join([*lines, "", *(shown(m, found[m.key]) for m in left)])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter, allow_abbrev=False
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("verb", choices=("collect", "run", "table"))
    parser.add_argument("--folder", type=Path, default=cache / "penstock-mutants")
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120, help="of a processor, for one mutant")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--again", action="append", choices=ENDS, help="try these once more")
    parser.add_argument("--only", choices=GROUPS, help="of those drawn")
    parser.add_argument("--tests", action="append", help="run these, and not those collected")
    parser.add_argument(
        "--written", action="store_true", help="to the copy, for what a server runs"
    )
    parser.add_argument("--proofs", action="store_true", help="of shared hardware, by proofs alone")
    parser.add_argument("--anew", action="store_true", help="collect again, of today's sources")
    given, parts = parser.parse_known_args(arguments)
    folder, checkout = given.folder / ("proofs" if given.proofs else ""), given.checkout
    folder.mkdir(parents=True, exist_ok=True)
    packages, of, kinds = (
        (SHARED, connections, CONNECTIONS) if given.proofs else (PACKAGES, changes, KINDS)
    )
    every = [
        m for name, text in sources(checkout, packages).items() for m in mutants(name, text, of)
    ]
    wanted = [
        mutant
        for mutant in drawn(every, given.count, given.seed, kinds)
        if given.verb == "collect"
        or not parts
        or any(part in f"{mutant.module}:{mutant.key}" for part in parts)
        if given.only in (None, group(mutant.module))
    ]
    if given.verb == "collect":
        if given.anew:
            shutil.rmtree(folder / "record", ignore_errors=True)
        return collect(folder, checkout, parts, wanted, given.seconds)
    if given.verb == "table":
        print(table(wanted, ends(folder, checkout)))
        return 0
    with (folder / "results.jsonl").open("a") as results:
        fcntl.flock(results, fcntl.LOCK_EX)  # one run at a time has the copy
        found, again = ends(folder, checkout), given.again or ()
        waiting = [m for m in wanted if m.key not in found or found[m.key]["end"] in again]
        by_key = {mutant.key: mutant for mutant in waiting}
        settings = (folder, checkout, waiting, given.seconds, given.workers)
        settings += (tuple(given.tests or ()), given.written)
        for told in proven(waiting, given.workers) if given.proofs else run(*settings):
            mutant = by_key[str(told["key"])]
            fields = {name: getattr(mutant, name) for name in ("module", "line", "kind", "text")}
            print(json.dumps(told | fields), file=results, flush=True)
            print(shown(mutant, told), flush=True)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # copies are put right then as well
    sys.exit(main())
