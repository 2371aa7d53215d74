"""Planted defects: the real component with a line of its source changed."""

from __future__ import annotations

import importlib
import inspect
import re
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .bench import Problem

__all__ = ["Defect", "planted"]


@dataclass(frozen=True)
class Defect:
    """`old`, which stands once in the source of module `penstock.<module>`, becomes `new`.

    Spaces and ends of lines do not count in `old`.
    """

    module: str
    old: str
    new: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """What finds `old`, whatever lines and trailing commas a formatter made of it."""
        tokens = re.findall(r"\w+|\S", self.old)
        parts = [(r",?\s*" if token in ")]}" else "") + re.escape(token) for token in tokens]
        return re.compile(r"\s*".join(parts))

    @property
    def line(self) -> int:
        """The number of the source's line that is changed, where the change begins."""
        source = inspect.getsource(importlib.import_module(f"penstock.{self.module}"))
        found = self.pattern.search(source)
        if found is None:
            raise Problem(f"{self.old!r} is not in penstock.{self.module}")
        return source.count("\n", 0, found.start()) + 1

    def __str__(self) -> str:
        return f"`{' '.join(self.old.split())}` → `{' '.join(self.new.split())}`"


def _functions(space: dict, module: str) -> dict[str, types.FunctionType]:
    """The functions and methods that a module defines, by qualified name."""
    found = {}
    for value in space.values():
        if getattr(value, "__module__", None) != module:
            continue
        members = vars(value).values() if isinstance(value, type) else [value]
        for member in members:
            if isinstance(member, types.FunctionType):
                found[member.__qualname__] = member
    return found


@contextmanager
def planted(defect: Defect) -> Iterator[None]:
    """Run the body with the defect in place, for everyone who uses the module."""
    name = f"penstock.{defect.module}"
    source = inspect.getsource(importlib.import_module(name))
    found = defect.pattern.findall(source)
    if len(found) != 1:
        raise Problem(f"a defect cannot be planted: {defect.old!r} is {len(found)} times in {name}")
    with replanted(defect.module, defect.pattern.sub(lambda _: defect.new, source)):
        yield


@contextmanager
def replanted(module: str, source: str) -> Iterator[None]:
    """Run the body with the functions of module `penstock.<module>` as another source has them, and its
    constants, numbers and tuples, where that module itself uses them.
    """
    name = f"penstock.{module}"
    home = importlib.import_module(name)
    space: dict = {"__name__": name, "__package__": home.__package__, "__file__": home.__file__}
    exec(compile(source, f"{name} with a defect", "exec"), space)
    changed = _functions(space, name)
    kept = []
    for label, function in _functions(vars(home), name).items():
        if (
            label in changed
            and changed[label].__code__.co_freevars == function.__code__.co_freevars
        ):
            kept.append((function, function.__code__))
            function.__code__ = changed[label].__code__
    constants = {
        key: value
        for key, value in vars(home).items()
        if type(value) in (int, tuple) and space.get(key) != value
    }
    vars(home).update({key: space[key] for key in constants if key in space})
    try:
        yield
    finally:
        vars(home).update(constants)
        for function, code in kept:
            function.__code__ = code
