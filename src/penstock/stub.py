"""Names of `penstock` for editors and type checkers: the package's own stub, and one that has other packages' names too."""

import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock
from penstock.dsl.core.python import Annotation
from penstock.dsl.core.tensor import Tensor
from penstock.dsl.dialect import Dialect, Function, dialects, own_dialects
from penstock.engines.discovery import engine_names

_HEAD = '"""Names of `penstock`, for editors and type checkers: written by `penstock.stub`."""\n\n'
#: the longest line
_WIDTH = 100


class _Imports:
    """The import lines that annotations and classes need."""

    def __init__(self) -> None:
        self.lines: dict[str, set[str]] = {}

    def add(self, module: str, name: str) -> None:
        self.lines.setdefault(module, set()).add(name)

    def needed(self, annotation: str, names: dict[str, Any]) -> str:
        """Note what an annotation needs, whose names mean these objects where it was written."""
        for word in set(re.findall(r"[A-Za-z_]\w*", annotation)) - {"None"}:
            meant = Tensor if word == "Tensor" else names.get(word)
            if meant is not None:
                module = "typing" if word == "Any" else getattr(meant, "__module__", "typing")
                self.add(module, word)
        return annotation

    def __str__(self) -> str:
        def one(module: str) -> str:
            line = f"from {module} import {', '.join(sorted(self.lines[module], key=_order))}"
            if len(line) <= _WIDTH:
                return line
            names = "".join(f"    {name},\n" for name in sorted(self.lines[module], key=_order))
            return f"from {module} import (\n{names})"

        def block(ours: bool) -> str:
            return "\n".join(one(m) for m in sorted(self.lines) if m.startswith("penstock") == ours)

        return f"{block(False)}\n\n{block(True)}\n"


def _order(name: str) -> tuple[int, str]:
    """Constants, classes, others: as the linter sorts imported names."""
    plain = name.partition(" ")[0]
    return (0 if plain.isupper() else 1 if plain[0].isupper() else 2), plain


def _parameters(
    signature: inspect.Signature, names: dict[str, Any], imports: _Imports
) -> list[str]:
    shown, starred = [], False
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        text = f"{p.name}: {imports.needed(p.annotation, names)}"
        if p.default is not p.empty:
            text += f" = {json.dumps(p.default) if isinstance(p.default, str) else repr(p.default)}"
        shown.append(text)
    return shown


def _definition(name: str, parameters: list[str], result: str, body: str) -> str:
    line = f"def {name}({', '.join(parameters)}) -> {result}:{body}"
    if len(line.partition("\n")[0]) <= _WIDTH:
        return line
    inner = f"    {', '.join(parameters)}\n"
    if len(inner) > _WIDTH or parameters[-1] == "/":
        inner = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"def {name}(\n{inner}) -> {result}:{body}"


def _docstring(doc: str) -> str:
    long = "\n" in doc
    return "\n" + textwrap.indent(f'"""{doc}{chr(10) if long else ""}"""', "    ")


def _function(called: Function, imports: _Imports) -> str:
    names = called.apply.__globals__
    result = imports.needed(called.declared.return_annotation, names)
    parameters = _parameters(called.declared, names, imports)
    return _definition(called.name, parameters, result, _docstring(called.doc))


def _decorator(dialect: Dialect, imports: _Imports) -> str:
    assert dialect.python is not None and dialect.options is not None
    kernel_class = dialect.python.__name__
    imports.add(dialect.python.__module__, kernel_class)
    imports.add("collections.abc", "Callable")
    imports.add("typing", "Any")
    imports.add("typing", "overload")
    names = getattr(dialect.options, "__globals__", {})
    options = _parameters(inspect.signature(dialect.options), names, imports)
    body = _docstring(inspect.getdoc(dialect.options) or "")
    taken = "Callable[..., Any]"
    plain = _definition(dialect.keyword, [f"function: {taken}", "/"], kernel_class, " ...")
    full = _definition(dialect.keyword, options, f"Callable[[{taken}], {kernel_class}]", body)
    return f"@overload\n{plain}\n@overload\n{full}"


def _names(dialect: Dialect, imports: _Imports) -> Iterator[tuple[str, str]]:
    """What a dialect offers: names with their definitions; imported ones have none."""
    imports.add(dialect.kernel.__module__, dialect.kernel.__name__)
    if dialect.python is not None:
        imports.add(Annotation.__module__, Annotation.__name__)
        yield dialect.keyword, _decorator(dialect, imports)
        for kind in dialect.kinds:
            yield kind.capitalize(), f"{kind.capitalize()}: Annotation"
    for called in dialect.functions.values():
        yield called.name, _function(called, imports)


def stub(outside: bool = False) -> str:
    """Return the text of `__init__.pyi`; `outside`: with the names of dialects and engines of other packages."""
    imports = _Imports()
    languages = list(dialects().values()) if outside else list(own_dialects())
    places: dict[str, tuple[str, str]] = dict(vars(penstock)["_API"])
    for name, place in engine_names().items():
        module, _, attribute = place.partition(":")
        if outside or module.startswith("penstock."):
            places[name] = module, attribute
    for name, (module, attribute) in places.items():
        imports.add(module, name if name == attribute else f"{attribute} as {name}")
    definitions: dict[str, str] = {}
    for dialect in languages:
        for name, definition in _names(dialect, imports):
            definitions.setdefault(name, definition)
    kernels = [dialect.kernel.__name__ for dialect in languages]
    public = sorted({*definitions, *places, *kernels, "__version__"}, key=_order)
    listed = "".join(f"    {json.dumps(name)},\n" for name in public)
    plain = sorted(text for text in definitions.values() if "\n" not in text)
    long = [definitions[name] for name in sorted(definitions) if "\n" in definitions[name]]
    parts = [
        f"{_HEAD}{imports}",
        f"__all__ = [\n{listed}]\n",
        "\n".join(["__version__: str", *plain, ""]),
        *long,
    ]
    return "\n".join(part if part.endswith("\n") else f"{part}\n" for part in parts)


def files() -> dict[str, bytes]:
    """Return the files of a stub package `penstock-stubs` (PEP 561, partial) with all installed names."""
    return {"__init__.pyi": stub(outside=True).encode(), "py.typed": b"partial\n"}


if __name__ == "__main__":
    Path(__file__).with_name("__init__.pyi").write_text(stub(), encoding="utf-8")
