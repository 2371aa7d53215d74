"""Names of an export: of the core, and of what is made of it."""

import re
import sys
from collections.abc import Iterable, Mapping
from keyword import kwlist

from penstock.dsl.core.diagnostics import Span, error

#: the core's name before it had this one
_OURS = ("penstock",)
#: words of SystemRDL 2.0 (Accellera, 2018, table 3: keywords) and names of headers of C99 (7.1.2), which `sw/NAME.h` would hide
_RDL = """abstract accesstype addressingtype addrmap alias all bit boolean bothedge compact component componentwidth constraint
default encode enum external false field fullalign hw inside internal level longint mem na negedge nonsticky number onreadtype
onwritetype posedge property r rclr ref reg regalign regfile rset ruser rw rw1 signal string struct sw this true type unsigned w w1
wclr woclr woset wot wr wset wuser wzc wzs wzt"""
_HEADERS = """assert complex ctype errno fenv inttypes iso646 limits locale math setjmp signal stdarg stdbool stddef stdint stdio
stdlib tgmath time wchar wctype"""
#: functions of C11 and POSIX that end as the driver's do (`sem_wait`), which a program may have beside it
_WAITED = "atomic_flag cnd epoll pthread_cond sem"
_KEPT = frozenset(
    f"{_RDL} {_HEADERS} {_WAITED} {' '.join(_OURS)} {' '.join(kwlist).lower()}".split()
)
#: types of C99 (7.17 to 7.23) and POSIX (sys/types.h) without their `_t`, by which PeakRDL's header would call the registers
_TYPES = frozenset(
    """clock div fpos imaxdiv int16 int32 int64 int8 intmax intptr ldiv lldiv max_align ptrdiff sig_atomic size uint16 uint32 uint64
    uint8 uintmax uintptr wctrans wint blkcnt blksize clockid dev fsblkcnt fsfilcnt gid id ino key mode nlink off pid pthread ssize
    suseconds timer uid useconds
    caddr daddr fexcept femode fsid loff quad siginfo sigset stack u_quad""".split()
) | {
    f"{sign}int_{kind}{bits}"
    for sign in ("", "u")
    for kind in ("fast", "least")
    for bits in (8, 16, 32, 64)
}
#: packages that Verilator and Python have: `rtl/std.v` and `litex/NAME.py` would hide them
_PACKAGES = sys.stdlib_module_names | {"litex", "migen", "std"}
#: names in the module for LiteX that those of classes could be
_IMPORTED = ("ClockSignal", "EventManager", "EventSourceLevel", "Instance", "Path", "ResetSignal")
#: what ends names that are made of a core's: another core of such a name would have files or names of C that are this one's
_ENDS = ("_error", "_reg", "_regs", "_tb")
_IP = re.compile(r"(?=.{1,31}$)[a-z][a-z0-9]*(_[a-z0-9]+)*")


def check_ip(name: str, flag: str = "--ip") -> str:
    """Return the name of a core. Raises KernelError (E832)."""
    reason = ""
    if not _IP.fullmatch(name):
        reason = "is not a lower-case letter and up to 30 more of a to z, 0 to 9 and single _ between them"
    elif _taken(name):
        reason = "is a word that Verilog, C, SystemRDL, Python or Penstock keeps for itself"
    elif name.endswith(_ENDS):
        reason = f"ends as what is made of the core {name.rpartition('_')[0]}"
    if reason:
        proposal = (
            re.sub(r"[^a-z0-9]+", "_", name.lower()).lstrip("_0123456789")[:26].strip("_") or "core"
        )
        kept = _taken(proposal) or proposal.endswith(_ENDS)
        hint = f"as in --ip {proposal + '_ip' if kept else proposal}"
        raise error("E832", f"{name!r} {reason}", Span.whole(flag), hint=hint)
    return name


def _taken(name: str) -> bool:
    from penstock.hdl.verilog.names import KEYWORDS

    return name in KEYWORDS or name in _KEPT or name in _TYPES or name in _PACKAGES


def class_name(ip: str) -> str:
    """Return what LiteX's module of a core is called: none of the names that it imports."""
    name = "".join(word.capitalize() for word in ip.split("_"))
    return f"{name}Core" if name in _IMPORTED else name


def module_names(ip: str, modules: Iterable[str], top: str) -> Mapping[str, str]:
    """Return what each module is called in the export: `ip`__core the one named `top`, and `ip`__<part> the
    others, each another name than all others. No name of a core has two underscores side by side or one at its
    end, so that what is before the first two is the core's, and none of another core has a module of this name."""
    from penstock.hdl.verilog.names import plain

    names = {top: f"{ip}__core"}
    taken = set(names.values())
    for module in modules:
        if module in names:
            continue
        part = plain(module.removeprefix(f"{top}.").removeprefix(f"{top}_"))
        name, number = f"{ip}__{part}", 2
        while name in taken:
            name, number = f"{ip}__{part}_{number}", number + 1
        taken.add(name)
        names[module] = name
    return names
