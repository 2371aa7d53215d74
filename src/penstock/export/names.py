"""Names of an export: of the core, and of what is made of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from penstock.dsl.core.diagnostics import Span, error

__all__ = ["check_ip", "module_names"]

#: the core's name before it had this one
_OURS = ("penstock",)
_IP = re.compile(r"[a-z][a-z0-9_]{0,30}")


def check_ip(name: str, flag: str = "--ip") -> str:
    """Return the name of a core. Raises KernelError (E832)."""
    reason = ""
    from penstock.hdl.verilog.names import KEYWORDS

    if not _IP.fullmatch(name):
        reason = "is not a lower-case letter and up to 30 more of a to z, 0 to 9 and _"
    elif name in KEYWORDS or name in _OURS:
        reason = "is a word that Verilog, C or Penstock keeps for itself"
    if reason:
        found = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_0123456789")[:26] or "core"
        hint = f"as in --ip {found + '_core' if found in KEYWORDS or found in _OURS else found}"
        raise error("E832", f"{name!r} {reason}", Span.whole(flag), hint=hint)
    return name


def module_names(ip: str, modules: Iterable[str], top: str) -> Mapping[str, str]:
    """Return what each module is called in the export: `ip`_core the one named `top`, and `ip`_<part> the
    others, each another name than all others and than those of wrapper and bench."""
    from penstock.hdl.verilog.names import plain

    taken = {ip, f"{ip}_core", f"{ip}_tb"}
    names = {top: f"{ip}_core"}
    for module in modules:
        if module in names:
            continue
        part = plain(module.removeprefix(f"{top}.").removeprefix(f"{top}_"))
        name, number = f"{ip}_{part}", 2
        while name in taken:
            name, number = f"{ip}_{part}_{number}", number + 1
        taken.add(name)
        names[module] = name
    return names
