"""Verilog of a design, fit for simulators and synthesis alike."""

import atexit
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from amaranth.hdl import Fragment

from ...models.shell import TOP
from ..alike import Alike
from ..apart import with_styles
from ..modules import ModuleLibrary, directed_ports
from ..verilog import Text, written


def to_verilog(design, *, name=TOP, library: ModuleLibrary | None = None) -> str:
    """Return the Verilog of a component, with the modules of `library` that it uses: the same text wherever and whenever it is made."""
    return "\n".join(module.text for module in to_modules(design, name=name, library=library))


def to_modules(
    design,
    *,
    name=TOP,
    library: ModuleLibrary | None = None,
    names: Callable[[Iterable[str]], Mapping[str, str]] | None = None,
    place: Callable[[str, str], str | None] | None = None,
) -> list[Text]:
    """Return the modules of a component's Verilog, the used before their users; `names` and `place` as `hdl.verilog.written` takes them."""
    with collector_off():
        fragment = Fragment.get(design, None)  # elaborates, and so fills the library
        ports = directed_ports(design)
        alike = Alike(sources=place is not None)
        modules = alike.converted(fragment, name, ports)
        text = "\n".join([*(library.texts if library else ()), *modules])
        return list(written(with_styles(text, library.styles if library else {}), names, place))


@contextmanager
def collector_off() -> Iterator[None]:
    """No search for garbage: the nets of a netlist are a million objects that all live to its end, looked through again and again in vain.

    They are in cycles, so what is left of them afterwards waits for the next full collection, or for the end of the process.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.freeze()
            gc.unfreeze()  # both together: all there is becomes old
            gc.enable()
        atexit.unregister(gc.freeze)
        atexit.register(gc.freeze)  # a process that ends need not find and free them one by one
