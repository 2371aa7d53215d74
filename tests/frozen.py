"""Writes digests of all examples and 200 drawn designs: python tests/frozen.py tests/frozen.json [NAME...]

With NAMEs, such as "linear.py" or "map 3", the others keep the digests that they have. `tests/test_frozen.py` compares them.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.pop(0)  # `tests` has a folder `penstock`
sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

from testbench.frozen import SUBJECTS, digests


def one(name: str) -> dict[str, str]:
    with TemporaryDirectory() as folder:
        return digests(SUBJECTS[name](), Path(folder))


def main(file: Path, names: list[str]) -> None:
    known = json.loads(file.read_text()) if file.exists() and names else {}
    with ProcessPoolExecutor() as workers:
        asked = names or list(SUBJECTS)
        known |= dict(zip(asked, workers.map(one, asked), strict=True))
    lines = [f"{json.dumps(name)}: {json.dumps(known[name])}" for name in SUBJECTS]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
