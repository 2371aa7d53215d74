"""Large modules that stand in several places of a design, which are compiled once.

Verilator makes a class of a module, and places share its functions where these are alike. They are not where what drives a port in one place is written into
them, nor where data-flow graphs number what they found. So ports of such modules stay variables (`public_flat_rd`), and designs with some go without the
graphs: 16 banks of state-update units then take a sixth of the C++ that they took, and run no slower.
"""

import re
from collections import Counter
from functools import cache

from ...models.shell import TOP

#: lines of Verilog, with those of the modules inside, from which on a module is large
LARGE = 2000
#: Verilator's option
NO_GRAPHS = "-fno-dfg"
_MODULE = re.compile(r"^module (\w+) \(.*?^endmodule$", re.MULTILINE | re.DOTALL)
_INSTANCE = re.compile(r"^  (\w+) \w+ \($", re.MULTILINE)
_PORT = re.compile(r"^(  (?:input|output) wire .*?)(,?)$", re.MULTILINE)


def shared_modules(source: str) -> tuple[str, list[str]]:
    """Return Verilog whose large modules in several places are compiled once, and the options of Verilator for it."""
    texts = {match[1]: match[0] for match in _MODULE.finditer(source)}
    inside = {
        name: Counter(n for n in _INSTANCE.findall(text) if n in texts)
        for name, text in texts.items()
    }

    @cache
    def lines(name: str) -> int:
        return texts[name].count("\n") + sum(map(lines, inside[name]))

    chosen: set[str] = set()
    todo = [TOP] if TOP in texts else []
    while todo:  # modules that stand in one place
        for name, places in inside[todo.pop()].items():
            if places > 1 and lines(name) >= LARGE:
                chosen.add(name)
            elif places == 1:
                todo.append(name)
    for name in chosen:
        head, rest = texts[name].split("\n);", 1)
        public = _PORT.sub(r"\1 /*verilator public_flat_rd*/\2", head)
        source = source.replace(texts[name], f"{public}\n);{rest}")
    return source, [NO_GRAPHS] if chosen else []
