"""What a shell offers behind the Tab key; nothing of a kernel's file is carried out."""

import ast
from collections.abc import Iterable
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from penstock.models.inputs import Input, InputError

#: formats that a word may become; `fixed:I,F` and `float:E,F` have more
_FORMATS = ("float32", "bfloat16", "float16", "fixed:8,8", "fixed:8,24", "fixed:16,16", "mx8")


def _beginning(word: str, known: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(one) for one in sorted(known) if one.startswith(word)]


def targets(_context: click.Context, _of: click.Parameter, word: str) -> list[CompletionItem]:
    """Names of targets; files where none begins so."""
    from penstock.boards.catalogue import targets

    return _beginning(word, targets()) or [CompletionItem(word, type="file")]


def boards(_context: click.Context, _of: click.Parameter, word: str) -> list[CompletionItem]:
    from penstock.boards.catalogue import boards

    return _beginning(word, boards())


def formats(_context: click.Context, _of: click.Parameter, word: str) -> list[CompletionItem]:
    return _beginning(word, _FORMATS)


def codes(_context: click.Context, _of: click.Parameter, word: str) -> list[CompletionItem]:
    """Codes that `penstock explain` knows."""
    from penstock.dsl.core.codes import codes
    from penstock.engines.discovery import error_pages

    return _beginning(word, {*codes(), *error_pages()})


def papers(_context: click.Context, _of: click.Parameter, word: str) -> list[CompletionItem]:
    """Papers that `penstock reproduce` knows."""
    from penstock.engines.discovery import papers

    return _beginning(word, papers())


_KERNELS = Input("a file of kernels", "")


def kernels(_context: click.Context, _of: click.Parameter, word: str) -> list[CompletionItem]:
    """Files; behind `FILE.py:` the kernels in it."""
    file, colon, name = word.rpartition(":")
    if not colon:
        return [CompletionItem(word, type="file")]
    with suppress(InputError), _KERNELS.parsing(file):
        entries = list(_names(ast.parse(_KERNELS.data(file))))
        return [CompletionItem(f"{file}:{entry}") for entry in entries if entry.startswith(name)]
    return []


def _names(module: ast.Module) -> Iterable[str]:
    """Yield the names that a file gives to kernels: functions under a keyword, and values that a kernel's class makes."""
    from penstock.dsl.dialect import dialects
    from penstock.engines.discovery import engine_names

    keywords = set(dialects()) | set(engine_names())
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            makers, names = node.decorator_list, [node.name]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            makers, names = [node.value], [t.id for t in node.targets if isinstance(t, ast.Name)]
        else:
            continue
        called = [one.func if isinstance(one, ast.Call) else one for one in makers]
        last = {
            one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in called
        }
        if last & keywords:
            yield from names
