"""Kernels from files, and what is said when they cannot be had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.dsl.core import places, text
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import load_kernel

KERNEL = '@ps.kernel\ndef {name}(x: ps.Input["d"], w: ps.Model["d"]):\n    return w - x\n'
HEAD = "import penstock as ps\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def message(where: str) -> str:
    with pytest.raises(KernelError) as caught:
        load_kernel(where)
    return str(caught.value)


def test_one_kernel() -> None:
    Path("k.py").write_text(HEAD + KERNEL.format(name="f"))
    assert load_kernel("k.py").name == "f"
    assert load_kernel("k.py:f").name == "f"
    assert load_kernel(Path("k.py")).file == "k.py"


def test_text() -> None:
    Path("k.psk").write_text("kernel f(x: input, w: model)\n w <- w - x\n")
    assert load_kernel("k.psk").name == "f"
    assert load_kernel("k.psk:f").name == "f"
    assert message("k.psk:g").startswith(
        "error[E104]: there is no kernel g in k.psk\n --> k.psk:1:8\n"
    )


def test_byte_order_mark_and_windows_lines() -> None:
    Path("k.psk").write_bytes(b"\xef\xbb\xbfkernel f(x: input, w: model)\r\n  w <- w - x\r\n")
    assert load_kernel("k.psk").check() == []
    Path("k.py").write_bytes(
        b"\xef\xbb\xbf" + (HEAD + KERNEL.format(name="f")).replace("\n", "\r\n").encode()
    )
    assert load_kernel("k.py").check() == []


def test_several_kernels() -> None:
    Path("k.py").write_text(HEAD + KERNEL.format(name="f") + KERNEL.format(name="g"))
    assert load_kernel("k.py:g").name == "g"
    assert message("k.py") == (
        "error[E105]: k.py has 2 kernels: f, g\n"
        " --> k.py:6:5\n"
        "  |\n"
        '6 | def g(x: ps.Input["d"], w: ps.Model["d"]):\n'
        "  |     ^\n"
        "note: the first one is here\n"
        " --> k.py:3:5\n"
        "  |\n"
        '3 | def f(x: ps.Input["d"], w: ps.Model["d"]):\n'
        "  |     ^\n"
        "hint: say which, as in k.py:f"
    )
    assert message("k.py:h") == (
        "error[E104]: there is no kernel h in k.py\n"
        " --> k.py:3:5\n"
        "  |\n"
        '3 | def f(x: ps.Input["d"], w: ps.Model["d"]):\n'
        "  |     ^\n"
        "hint: its kernels are f, g"
    )


def test_imported_kernels_do_not_count() -> None:
    Path("shared_kernels.py").write_text(HEAD + KERNEL.format(name="f"))
    Path("k.py").write_text(HEAD + "from shared_kernels import f\n" + KERNEL.format(name="g"))
    assert load_kernel("k.py").name == "g"
    Path("only.py").write_text("from shared_kernels import f\n")
    assert load_kernel("only.py").name == "f"


def test_an_alias_is_not_a_second_kernel() -> None:
    Path("k.py").write_text(HEAD + KERNEL.format(name="f") + "again = f\n")
    assert load_kernel("k.py").name == "f"


def test_missing_and_unreadable() -> None:
    wanted = "hint: name a file with a kernel in it, such as linear.py or linear.psk; paths are taken from the current folder"
    assert message("k.py") == f"error[E102]: there is no file k.py\n --> k.py\n{wanted}"
    assert message("k.psk") == f"error[E102]: there is no file k.psk\n --> k.psk\n{wanted}"
    Path("d.py").mkdir()
    assert message("d.py") == f"error[E102]: d.py is a folder, not a file\n --> d.py\n{wanted}"
    assert (
        message("k.txt")
        == f"error[E108]: k.txt is not a kernel: its suffix must be .py or .psk\n --> k.txt\n{wanted}"
    )
    assert (
        message("")
        == f"error[E108]: . is not a kernel: its suffix must be .py or .psk\n --> .\n{wanted}"
    )
    assert (
        message("no/k.py")
        == "error[E102]: there is no file no/k.py\n --> no/k.py\nhint: there is no folder no"
    )
    assert message("a\0b.py").startswith("error[E102]: a\0b.py cannot be read: ")
    Path("d.py/linear.psk").touch()
    Path("linear.py").touch()
    assert message("d.py").endswith("\nhint: name a file in it, such as d.py/linear.psk")
    assert message("linaer.py").endswith("\nhint: did you mean linear.py?")
    assert message("linear.psk").endswith("\nhint: did you mean linear.py?")
    assert message("linear").endswith("\nhint: did you mean linear.py?")


def test_functions_that_were_meant_as_kernels() -> None:
    Path("k.py").write_text("def helper(v):\n    return v\n\n\ndef f(x, w):\n    return w - x\n")
    shown = " --> k.py:5:1\n  |\n5 | def f(x, w):\n  | ^^^^^\n"
    assert (
        message("k.py")
        == f"error[E104]: there is no kernel in k.py\n{shown}hint: a kernel is a function with the decorator @ps.kernel"
    )
    assert (
        message("k.py:f")
        == f"error[E104]: there is no kernel f in k.py\n{shown}hint: write `@ps.kernel` above `def f(...)`"
    )


@pytest.mark.parametrize("suffix", ["py", "psk"])
def test_not_utf8(suffix: str) -> None:
    Path(f"k.{suffix}").write_bytes(b"# fine\n# caf\xe9\n")
    assert message(f"k.{suffix}") == (
        f"error[E103]: k.{suffix} is not UTF-8: byte 12 is 0xe9\n"
        f" --> k.{suffix}:2:6\n  |\n2 | # caf�\n  |      ^\nhint: save the file as UTF-8"
    )


def test_empty() -> None:
    Path("k.py").write_text("")
    assert (
        message("k.py")
        == "error[E104]: there is no kernel in k.py\n --> k.py:1:1\n  |\n1 | \n  | ^\nhint: a kernel is a function with the decorator @ps.kernel"
    )
    Path("k.psk").write_text("")
    assert (
        message("k.psk")
        == "error[E104]: there is no kernel in k.psk\n --> k.psk:1:1\n  |\n1 | \n  | ^\nhint: a kernel begins with `kernel name(parameters)`"
    )


def test_null_bytes() -> None:
    for name in ("k.py", "k.psk"):
        Path(name).write_bytes(b"#\nx\0y")
        assert message(name) == (
            f"error[E101]: {name} is not text: it holds a NUL character\n"
            f" --> {name}:2:2\n"
            "  |\n"
            "2 | x\0y\n"
            "  |  ^\n"
            "hint: is it the right file? If it is, save it as UTF-8, not as UTF-16"
        )


def test_nested_too_deeply() -> None:
    Path("k.py").write_text("x = " + "+".join(["1"] * 100_000))
    assert message("k.py").startswith(
        "error[E107]: k.py is nested too deeply for Python\n --> k.py:1:1\n  |\n1 | x = 1+1"
    )
    Path("k.py").write_text("y = 1\nx = " + "-(" * 3000 + "1" + ")" * 3000)
    shown = message("k.py")
    assert shown.startswith(
        ("error[E107]: k.py is nested", "error[E101]: Python cannot read this: too many nested")
    )
    assert "k.py:2:" in shown and "^" in shown and "\nhint: " in shown


N = 200_000
HUGE_TEXT = {
    "sum": " + ".join(["w"] * N),
    "nested": "(" * N + "w" + ")" * N,
    "open": "(" * N,
    "transposed": "w" + ".T" * N,
    "arguments": f"where({','.join(['w'] * N)})",
    "statements": "w" + "\n a = w" * N,
    "lines": "w +" + "\n" * N,
}


@pytest.mark.parametrize("body", HUGE_TEXT.values(), ids=HUGE_TEXT)
def test_a_text_too_long_to_parse(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before the parser, which takes 40 µs for each word, sees it."""
    monkeypatch.setattr(text, "_parser", lambda: pytest.fail("it was parsed"))
    Path("k.psk").write_text(f"kernel f(w: model) # {'x ' * N}\n w <- {body}\n")
    said = message("k.psk")
    assert said.startswith("error[E107]: the kernel has more than 60000 words, signs and lines\n")
    assert "^" in said and "\nhint: compute with whole vectors" in said and len(said) < 1000


def test_a_name_of_a_million_letters() -> None:
    Path("k.psk").write_text(f"kernel f(x: input, w: model)\n w <- {'a' * 1_000_000}\n")
    said = message_of_check("k.psk")
    assert said.startswith("error[E201]: the name aaa") and len(said) < 5000


def test_a_long_function_is_not_hashed_at_every_operation() -> None:
    """Python hashes and compares a function's code by all that it holds."""

    class Code:
        def __getattr__(self, name: str) -> object:
            return getattr(message.__code__, name)

        def __hash__(self) -> int:
            raise AssertionError

    code: Any = Code()
    assert places._code_span(code, 0, 1) == places._code_span(code, 0, 1)


#: exceptions that a kernel's file raises while it is loaded, and what stands in the hint
RAISED = [
    ("raise SystemExit(3)", "SystemExit: 3", "__main__"),
    ("import sys; sys.exit()", "SystemExit", "__main__"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt", "__main__"),
    ("class Mine(BaseException): pass\nraise Mine('no')", "Mine: no", "`python k.py`"),
    ("raise GeneratorExit", "GeneratorExit", "`python k.py`"),
    ("open('nothing')", "FileNotFoundError: [Errno 2]", "Path(__file__).parent"),
    ("pritn(1)", "NameError: name 'pritn' is not defined", "did you mean print?"),
    ("import nothing.at.all", "there is no module nothing", "pip install"),
]


@pytest.mark.parametrize(("code", "said", "hint"), RAISED, ids=[code for code, _, _ in RAISED])
def test_what_a_file_may_raise(code: str, said: str, hint: str) -> None:
    Path("k.py").write_text(HEAD + code + "\n" + KERNEL.format(name="f"))
    shown = message("k.py")
    assert shown.startswith(f"error[E106]: running k.py failed: {said}")
    assert "^" in shown
    assert hint in shown.split("\nhint: ")[1]


RAISED_INSIDE = [
    "raise SystemExit",
    "exit()",
    "raise KeyboardInterrupt",
    "raise Mine('no')",
    "raise GeneratorExit",
    "raise MemoryError",
]


@pytest.mark.parametrize("code", RAISED_INSIDE)
def test_what_a_kernel_may_raise(code: str) -> None:
    Path("k.py").write_text(
        HEAD
        + f"class Mine(BaseException): pass\n@ps.kernel\ndef f(x: ps.Input, w: ps.Model):\n    {code}\n    return w - x\n"
    )
    with pytest.raises(KernelError) as caught:
        load_kernel("k.py").check()
    assert str(caught.value).startswith("error[E109]: the kernel's Python code raised ")
    assert f"5 |     {code}\n  |     ^" in str(caught.value)
    assert caught.value.diagnostic.hint


def test_the_user_may_interrupt() -> None:
    code = "import os, signal\n@ps.kernel\ndef f(x: ps.Input, w: ps.Model):\n    os.kill(os.getpid(), signal.SIGINT)\n    return w - x\n"
    Path("k.py").write_text(HEAD + code)
    with pytest.raises(KeyboardInterrupt):
        load_kernel("k.py").check()
    Path("k.py").write_text(
        HEAD
        + "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(10**9): pass\n"
    )
    with pytest.raises(KeyboardInterrupt):
        load_kernel("k.py")


def test_mistake_in_a_helper_module() -> None:
    Path("my_helper.py").write_text("def bad(v):\n    return v[0]\n")
    Path("k.py").write_text(
        HEAD + "import my_helper\n" + KERNEL.format(name="f").replace("w - x", "my_helper.bad(w)")
    )
    with pytest.raises(KernelError) as caught:
        load_kernel("k.py").check()
    assert str(caught.value.diagnostic.span).endswith("my_helper.py:2:12")
    assert "2 |     return v[0]\n  |            ^^^^" in str(caught.value)


def test_syntax_error_in_an_imported_module() -> None:
    Path("my_broken.py").write_text("def bad(:\n")
    Path("k.py").write_text("import my_broken\n")
    first, place = message("k.py").split("\n")[:2]
    assert first == "error[E101]: Python cannot read this: invalid syntax"
    assert place.endswith("my_broken.py:1:9")


def test_columns_count_characters() -> None:
    Path("k.py").write_text(
        HEAD + KERNEL.format(name="f").replace("w - x", "w * ('é', x[0])"), encoding="utf-8"
    )
    assert "k.py:4:22\n" in message_of_check("k.py")
    text = "kernel f(x: input[d], w: model[d])\n  é = sum(x) * é\n"
    Path("k.psk").write_text(text, encoding="utf-8")
    assert "k.psk:2:16\n" in message_of_check("k.psk")


def message_of_check(where: str) -> str:
    with pytest.raises(KernelError) as caught:
        load_kernel(where).check()
    return str(caught.value)


def test_the_file_can_change_between_loads() -> None:
    path = Path("k.py")
    path.write_text(HEAD + KERNEL.format(name="f"))
    load_kernel("k.py")
    path.write_text("# another line\n" + HEAD + KERNEL.format(name="f").replace("w - x", "w - z"))
    assert "5 |     return w - z\n  |                ^" in message_of_check("k.py")


@pytest.mark.parametrize("name", ["ö", "ξ", "Жук", "变量", "_x1", "xₐ"])
def test_names_of_every_alphabet(name: str, tmp_path: Path) -> None:
    """What is a name in Python is one in text."""
    text = tmp_path / "k.psk"
    text.write_text(
        f"kernel k({name}: input[d], y: output, w: model[d])\n"
        f"  w <- w - (sum(w * {name}) - y) * {name}\n",
        encoding="utf-8",
    )
    python = tmp_path / "k.py"
    python.write_text(
        "import penstock as ps\n\n\n@ps.kernel\n"
        f'def k({name}: ps.Input["d"], y: ps.Output, w: ps.Model["d"]):\n'
        f"    return w - (ps.sum(w * {name}) - y) * {name}\n",
        encoding="utf-8",
    )
    graphs = [load_kernel(file).trace({"d": 3}) for file in (text, python)]
    assert [[v.name for v in g.of_kind("input")] for g in graphs] == [
        [graphs[1].of_kind("input")[0].name]
    ] * 2
