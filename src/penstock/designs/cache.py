"""Verilog that was generated before: the same plan and the same generator give the same text."""

import hashlib
import importlib
import importlib.metadata
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

#: packages whose code decides what Verilog comes of a plan, whole
_PACKAGES = ("penstock.hdl", "penstock.models", "penstock.sim", "penstock.dsl", "penstock.boards")


@cache
def generator(package: str = "") -> str:
    """Return a digest of everything that makes Verilog of a plan; `package`: the engine's own."""
    names = (*_PACKAGES, package) if package else _PACKAGES
    folders = [(name, Path(importlib.import_module(name).__path__[0])) for name in names]
    return digest_of(folders, [f"amaranth {importlib.metadata.version('amaranth')}"])


def digest_of(folders: Iterable[tuple[str, Path]], versions: Iterable[str]) -> str:
    """Return a digest of every module and table in the folders, by its name and text, and of the versions."""
    state = hashlib.sha256("\n".join(versions).encode())
    for package, folder in folders:
        for file in sorted(f for f in folder.rglob("*.*") if f.suffix in (".py", ".toml")):
            name = f"{package}/{file.relative_to(folder).as_posix()}".encode()
            text = file.read_bytes()
            state.update(b"%d %d " % (len(name), len(text)) + name + text)
    return state.hexdigest()


def remembered(digest: str, make: Callable[[], str], engine: str = "") -> str:
    """Return the Verilog of the plan with this digest, from the cache of compiled simulations if it
    is there, else made and kept there. `engine`: the package of the plan's engine."""
    return kept(f"{digest} {generator(engine)}", make)


def recalled(digest: str, engine: str = "") -> str | None:
    """Return what `remembered` has kept, None where that is nothing."""
    from penstock.sim.native.store import text_of

    file = _file(f"{digest} {generator(engine)}")
    return None if file is None else text_of(file)


def _file(key: str) -> Path | None:
    """Return where the cache keeps what `key` stands for; None for a cache that cannot be made, which is no reason to stop."""
    from penstock.hdl.environment import cache_folder

    try:
        return cache_folder() / f"design-{hashlib.sha256(key.encode()).hexdigest()[:32]}.v"
    except OSError:
        return None


def kept(key: str, make: Callable[[], str]) -> str:
    """Return the Verilog that `key` stands for, from the cache if it is there undamaged, else made and kept there."""
    from penstock.sim.native.store import alone, publish, text_of

    if (file := _file(key)) is None:
        return make()
    text = text_of(file)
    if text is None:
        with alone(file):
            text = text_of(file)  # another process may have made it meanwhile
            if text is None:
                text = make()
                with suppress(OSError):
                    publish(text.encode(), file)
    return text
