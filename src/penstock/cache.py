"""Verilog that was generated before: the same plan and the same generator give the same text."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from penstock.output import OutputError, write_file

__all__ = ["kept", "remembered"]


@cache
def generator() -> str:
    """Return a digest of everything that makes Verilog of a plan."""
    import penstock.hdl
    import penstock.models
    import penstock.sim
    state = hashlib.sha256(importlib.metadata.version("amaranth").encode())
    files: list[Path] = []
    for package in (penstock.hdl, penstock.models, penstock.sim):
        files += sorted(Path(package.__path__[0]).rglob("*.py"))
    for file in files:
        state.update(file.read_bytes())
    return state.hexdigest()


def remembered(digest: str, make: Callable[[], str]) -> str:
    """Return the Verilog of the plan with this digest, from the cache of compiled simulations if it is there, else made and kept there."""
    return kept(f"{digest} {generator()}", make)


def kept(key: str, make: Callable[[], str]) -> str:
    """Return the Verilog that `key` stands for, from the cache if it is there, else made and kept there."""
    from penstock.sim.native.toolchain import cache_folder
    try:
        file = cache_folder() / f"design-{hashlib.sha256(key.encode()).hexdigest()[:32]}.v"
    except OSError:                     # a cache that cannot be made is no reason to stop here
        return make()
    try:
        text = file.read_text()
        os.utime(file)
        return text
    except OSError:
        text = make()
    with suppress(OutputError):
        write_file(file, text.encode())
    return text
