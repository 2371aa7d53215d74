"""What Pimba (MICRO 2025) printed or drew, as `published.toml` holds it."""

import tomllib
from pathlib import Path
from typing import Any


def _fixed(value: Any) -> Any:
    """Return data in which lists are tuples."""
    if isinstance(value, dict):
        return {name: _fixed(each) for name, each in value.items()}
    return tuple(map(_fixed, value)) if isinstance(value, list) else value


_FOUND = _fixed(tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")))
ATTENTION_LATENCY = _FOUND["attention_latency"]
BATCHES = _FOUND["batches"]
ENERGY = _FOUND["energy"]
NEUPIMS = _FOUND["neupims"]
NEUPIMS_TOKENS = _FOUND["neupims_tokens"]
SYSTEMS = _FOUND["systems"]
THROUGHPUT = _FOUND["throughput"]
THROUGHPUT_H100 = _FOUND["throughput_h100"]
UPDATE_LATENCY = _FOUND["update_latency"]
UPDATE_SPEEDUP = _FOUND["update_speedup"]
