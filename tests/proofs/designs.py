# amaranth: UnusedElaboratable=no
"""What the netlist is looked at of: a whole device for each kernel in `kernels`, the benches of all
proofs, and further components that parts name. Nothing here knows an engine.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from amaranth.hdl import ClockSignal, Fragment
from amaranth.hdl._nir import Netlist
from amaranth.lib import wiring
from parts import COMPONENTS, PROOFS

import penstock.hdl
from penstock.api import compile
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import load_kernel
from penstock.engines.discovery import engine_of
from penstock.hdl.alike import Alike
from penstock.hdl.modules import directed_ports
from penstock.hdl.soc import Soc

__all__ = ["DESIGNS", "KERNELS", "components", "converted", "elaborated", "engine_names"]

#: small kernels: files with one kernel each, which the target `small` has room for
KERNELS = sorted((Path(__file__).parent / "kernels").glob("*.p*"))


def engine_names() -> set[str]:
    """The engines that have a kernel here."""
    return {engine_of(load_kernel(file)).name for file in KERNELS}


def converted(component, library=None) -> list[str]:
    """A component as RTLIL: the modules of its library, then its own, parts that are equal once."""
    own = Alike().converted(Fragment.get(component, None), "top", directed_ports(component))
    return [*(library.texts if library else []), *own]


def _shakes(fragment: Fragment) -> bool:
    """Whether a signal in a design may be a handshake's ready: by its name, as in the netlist."""
    signals = (
        signal
        for domain in fragment.statements.values()
        for statement in domain
        if not isinstance(getattr(statement, "lhs", None), ClockSignal)
        for signal in (*statement._lhs_signals(), *statement._rhs_signals())
    )
    return any(re.search(r"ready(\$\d+)?$", signal.name) for signal in signals) or any(
        _shakes(inner) for inner, *_ in fragment.subfragments
    )


def _component(make: Callable[[], wiring.Component]) -> list[str]:
    """A component; elaborated alone where no handshake is in it."""
    fragment = Fragment.get(component := make(), None)
    return converted(component) if _shakes(fragment) else []


def _device(file: Path) -> list[str]:
    """A kernel's engine as a whole device: shell, link, arbiter, memory."""
    kernel = load_kernel(file)
    try:
        design = compile(kernel, "small")
    except KernelError:  # its engine's own target is larger
        design = compile(kernel)
    engine, library = design.hardware()
    soc = Soc(
        engine,
        engine.register_map,
        library=library,
        memory_bytes=1 << 12,  # of its words each costs time here
        clock_hz=12_000_000,
        baud=1_000_000,
    )
    return converted(soc, library)


def _benches() -> dict[str, Callable[[], list[str]]]:
    """The first bench of each part, but for those that take long: what is in it is looked at as in
    a device.
    """
    found: dict[str, Callable[[], list[str]]] = {}
    for proof in PROOFS:
        if proof.long:
            continue
        found.setdefault(f"bench of {proof.part}", lambda proof=proof: [proof.bench().rtlil()])
    return found


#: by name, what makes the RTLIL of each
DESIGNS: dict[str, Callable[[], list[str]]] = {
    **{f"kernel {file.name}": lambda file=file: _device(file) for file in KERNELS},
    **{
        f"component {name}": lambda make=make: _component(make) for name, make in COMPONENTS.items()
    },
    **_benches(),
}


def components() -> dict[str, set[type]]:
    """All components of Penstock's hardware that can be built, by package."""
    found: dict[str, set[type]] = {}
    for module in pkgutil.walk_packages(penstock.hdl.__path__, "penstock.hdl."):
        for value in vars(importlib.import_module(module.name)).values():
            if (
                isinstance(value, type)
                and issubclass(value, wiring.Component)
                and hasattr(value, "elaborate")
                and value.__module__ == module.name
            ):
                found.setdefault(".".join(module.name.split(".")[:3]), set()).add(value)
    return found


@contextmanager
def elaborated() -> Iterator[set[type]]:
    """Collect the classes of all components that are elaborated meanwhile, those that others build
    on included.

    Amaranth's search for loops of logic is left out meanwhile, and Python's for dead objects: each
    takes a fifth of the time. Devices that are built are searched for loops.
    """
    kept, seen = Fragment.get, set()
    loops, collects = Netlist.check_comb_cycles, gc.isenabled()

    def get(elaboratable, platform):
        seen.update(type(elaboratable).__mro__)
        return kept(elaboratable, platform)

    Fragment.get = staticmethod(get)
    Netlist.check_comb_cycles = lambda netlist: None
    gc.disable()
    gc.freeze()  # what is alive need not be looked at behind each
    try:
        yield seen
    finally:
        Fragment.get, Netlist.check_comb_cycles = staticmethod(kept), loops
        if collects:
            gc.enable()
            gc.collect()
        gc.unfreeze()
