"""Plants a change into functions that live already: their code is replaced, in all that hold them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType


def replaced(module: str, text: str) -> bool:
    """Let the functions of a module's file, wherever they are held, do what the changed text says.

    Return whether that is possible: what an import executes is past.
    """
    old = compile(Path(module).read_text(), module, "exec", dont_inherit=True)
    pairs = [*_changed(old, compile(text, module, "exec", dont_inherit=True))]
    if any(before.co_flags & _FUNCTION != _FUNCTION for before, _ in pairs):
        return False
    new = {_name(before): after for before, after in pairs}
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename == module:
            after = new.get(_name(function.__code__))
            if after is not None:
                if after.co_freevars != function.__code__.co_freevars:
                    return False
                function.__code__ = after
    return True


_FUNCTION = 0x3  # optimised, new locals: no module's code, nor a class's


def _name(code: CodeType) -> tuple[str, int, bytes]:
    return code.co_qualname, code.co_firstlineno, code.co_code


def _changed(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield each code that differs itself, and each that runs or makes one that does."""
    inner = _inner(old), _inner(new)
    alike = len(inner[0]) == len(inner[1])  # else one of them went with an operand
    below = [(a, [*_changed(a, b)]) for a, b in zip(*inner, strict=True)] if alike else []
    for _, pairs in below:
        yield from pairs
    within = old.co_flags & _FUNCTION == _FUNCTION
    runs = any(pairs and (within or a.co_name == "<genexpr>") for a, pairs in below)
    if runs or _own(old) != _own(new):
        yield old, new


def _inner(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _own(code: CodeType) -> tuple[object, ...]:
    plain = [(type(c), c) for c in code.co_consts if not isinstance(c, CodeType)]
    return (code.co_code, repr(plain), code.co_names, code.co_varnames, code.co_freevars)
