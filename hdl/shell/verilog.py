"""Verilog of a design, fit for simulators and synthesis alike."""

import atexit
import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from amaranth.back import rtlil, verilog
from amaranth.hdl import Fragment

from ...models.shell import TOP
from ..apart import with_styles
from ..environment import tool_variables
from ..modules import ModuleLibrary, directed_ports
from ..verilog import Text, written

__all__ = ["TOP", "to_modules", "to_verilog"]

_MODULE = re.compile(r"^module .*?^endmodule", re.DOTALL | re.MULTILINE)
_CONSTANT = re.compile(
    r"^  always @\*\n    (?P<assignment>[^\n;]+ = [0-9]+'[sS]?[bhodBHOD][0-9a-fA-F_xXzZ]+;)$",
    re.MULTILINE,
)
_TRIGGER = re.compile(r"^  reg (?P<name>\\\S*dump_module\S* ) = 0;$", re.MULTILINE)


def to_verilog(design, *, name=TOP, library: ModuleLibrary | None = None):
    """The Verilog of a component, with the modules of `library` that it uses: the same text wherever and whenever it is made.

    The backend writes a constant that drives some bits of a signal as `always @*` without anything to be sensitive to, which by
    the language (IEEE 1364-2005, 9.7.5) never runs in a simulator. Such blocks get the trigger that the backend gives to all
    others. The library goes through Yosys while the top's netlist is made.
    """
    with _collector_off(), _yosys_variables(), ThreadPoolExecutor(1) as beside:
        fragment = Fragment.get(design, None)  # elaborates, and so fills the library
        styles = library.styles if library else {}
        texts = with_styles("\n".join(library.texts), styles) if library else ""
        parts = beside.submit(_yosys, texts) if texts else None
        text = rtlil.convert(fragment, name=name, ports=directed_ports(design), emit_src=False)
        top = _yosys(with_styles(text, styles))
        text = (parts.result() if parts else "") + top
    return _MODULE.sub(_awaken, text)


def to_modules(
    design,
    *,
    name=TOP,
    library: ModuleLibrary | None = None,
    names: Callable[[Iterable[str]], Mapping[str, str]] | None = None,
    place: Callable[[str, str], str | None] | None = None,
) -> list[Text]:
    """Return the modules of a component's Verilog, the used before their users; `names` and `place` as `hdl.verilog.written` takes them."""
    with _collector_off():
        fragment = Fragment.get(design, None)  # elaborates, and so fills the library
        ports = directed_ports(design)
        top = rtlil.convert(fragment, name=name, ports=ports, emit_src=place is not None)
        text = "\n".join([*(library.texts if library else ()), top])
        return list(written(with_styles(text, library.styles if library else {}), names, place))


def _yosys(text: str) -> str:
    return str(verilog._convert_rtlil_text(text, strip_internal_attrs=True))


@contextmanager
def _yosys_variables() -> Iterator[None]:
    """Yosys starts as a Python module: no file beside the user's kernel may be in its way, and it
    needs a folder for its compiled code."""
    chosen = {"PYTHONSAFEPATH": "1", **tool_variables()}
    saved = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _collector_off() -> Iterator[None]:
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


def _awaken(module):
    text = module.group(0)
    if not _CONSTANT.search(text):
        return text
    trigger = _TRIGGER.search(text)
    if trigger:
        never = trigger["name"]
    else:
        never = "\\$penstock_never "
        head = text.index(";\n") + 2
        text = f"{text[:head]}  reg {never} = 0;\n{text[head:]}"
    return _CONSTANT.sub(
        lambda found: (
            f"  always @* begin\n    if ({never}) begin end\n    {found['assignment']}\n  end"
        ),
        text,
    )
