"""Designs as users hold them: what `penstock.compile` and `penstock.load` return."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from penstock import api, hooks
from penstock.dsl.core.diagnostics import render
from penstock.engines import base
from penstock.errors import RunWarning
from penstock.models.numerics.formats import Format
from penstock.models.resources import Resources
from penstock.models.shell import RegisterMap
from penstock.models.target import Target

Taken = ParamSpec("Taken")
Result = TypeVar("Result")


def _of_engines(
    method: Callable[Concatenate[Any, Taken], Result],
) -> Callable[Concatenate[Any, Taken], Result]:
    """Return a method that does what the design does that its engine sees; its parameters and its docstring stand there."""

    @wraps(method)
    def same(self: Any, *args: Taken.args, **options: Taken.kwargs) -> Result:
        result: Result = getattr(self.compiled, method.__name__)(*args, **options)
        return result

    return same


def _for_users(make: Callable[Taken, base.Design]) -> Callable[Taken, Design]:
    """Return a function that gives users the design which `make` gives engines; its parameters and its docstring stand there."""

    @wraps(make)
    def held(*args: Taken.args, **options: Taken.kwargs) -> Design:
        design = make(*args, **options)
        for diagnostic in design.warned:
            warnings.warn(render(diagnostic, design.source), RunWarning, stacklevel=2)
        return Design(design)

    return held


@dataclass(frozen=True, repr=False)
class Design:
    """A compiled kernel: runs on every backend, and what can be carried away of it.

    `compiled`: the same as its engine sees it, a `penstock.engines.base.Design` with the engine's own plan, workloads, machines and
    simulation libraries.
    """

    compiled: base.Design

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.compiled.name

    @property
    def target(self) -> Target:
        """The machine that it is for."""
        return self.compiled.target

    @property
    def format(self) -> Format:
        """The widest numbers that the hardware computes with."""
        return self.compiled.format

    @property
    def digest(self) -> str:
        """64 hexadecimal digits: the same for the same kernel, table schema and target."""
        return self.compiled.digest

    @property
    def resources(self) -> Resources:
        """What it is expected to take of its part. Raises KernelError where there is no hardware of it."""
        return self.compiled.resources

    @property
    def registers(self) -> RegisterMap:
        """The registers of its control port, with the error codes."""
        return self.compiled.registers

    @property
    def verilog(self) -> str:
        """The engine's Verilog in its shell, top module `penstock`."""
        return self.compiled.verilog

    def describe(self) -> dict[str, Any]:
        """Return what reports and JSON say of it."""
        return self.compiled.describe()

    order = _of_engines(base.Design.order)
    run = _of_engines(base.Design.run)
    open = _of_engines(base.Design.open)
    netlist = _of_engines(base.Design.netlist)
    files = _of_engines(base.Design.files)
    save = _of_engines(base.Design.save)
    export = _of_engines(base.Design.export)

    def __repr__(self) -> str:
        return repr(self.compiled)

    def _repr_html_(self) -> str:
        return hooks.page(self.compiled)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "compiled":
            raise AttributeError(name)
        value = getattr(self.compiled, name)
        note = f"design.{name} is deprecated: write design.compiled.{name}"
        warnings.warn(note, DeprecationWarning, stacklevel=2)
        return value


load, compile = _for_users(api.load), _for_users(api.compile)
