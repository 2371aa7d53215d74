"""The repository as a whole: packaging, documents that name things, nothing of any one machine."""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.boards.catalogue import targets
from penstock.cli.main import program

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("boards", "dsl", "hdl", "host", "models", "sim")
DOCUMENTS = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
)


@pytest.fixture(scope="module", autouse=True)
def undisturbed() -> Iterator[None]:
    """Collect what other tests left before, not within `ast.parse`: a finalizer that prints a traceback
    parses as well, and Python 3.11 counts the depths of the two together. Once: it takes half a second."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def tracked() -> list[Path]:
    """All files of the repository: git's list, or where this is no clone all that is not hidden, built or cached."""
    if (ROOT / ".git").exists():
        done = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            text=True,
            check=True,
        )
        return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and not any(
            part.startswith(".")
            or part in ("__pycache__", "build", "dist")
            or part.endswith(".egg-info")
            for part in path.relative_to(ROOT).parts
        )
    ]


FILES = tracked()


def room_files() -> list[Path]:
    return [path for path in FILES if path.relative_to(ROOT).parts[0] in (*ROOMS, "src")]


def installed_as(path: Path) -> str:
    """The path under the installed package `penstock`."""
    relative = path.relative_to(ROOT)
    return (
        relative.relative_to("src/penstock") if relative.parts[0] == "src" else relative
    ).as_posix()


# packaging


def test_every_folder_of_modules_is_a_package() -> None:
    for folder in {path.parent for path in room_files() if path.suffix == ".py"}:
        assert (folder / "__init__.py").is_file(), f"{folder.relative_to(ROOT)} has no __init__.py"


def test_a_checkout_does_not_hide_the_package() -> None:
    for arguments in (
        ["-c", "import penstock, penstock.dsl; print(penstock.__version__)"],
        ["-m", "penstock", "--version"],
    ):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert importlib.metadata.version("penstock") in done.stdout


def test_everything_is_installed() -> None:
    for path in room_files():
        name = installed_as(path)
        package, _, rest = name.partition("/")
        spec = importlib.util.find_spec(f"penstock.{package}") if rest else None
        places = (
            list(spec.submodule_search_locations or ())
            if spec is not None
            else list(penstock.__path__)
        )
        assert any((Path(place) / (rest or name)).is_file() for place in places), (
            f"{name} is not in the installed package"
        )


def test_no_room_is_installed_at_the_top() -> None:
    assert [room for room in ROOMS if (Path(sysconfig.get_path("purelib")) / room).exists()] == []
    script = f"import importlib.util as u; print([name for name in {ROOMS} if u.find_spec(name)])"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=ROOT / "docs",
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_every_dependency_has_its_reason() -> None:
    text = (
        (ROOT / "pyproject.toml")
        .read_text(encoding="utf-8")
        .partition("\ndependencies")[2]
        .partition("[project.scripts]")[0]
    )
    lines = [line for line in text.splitlines() if re.match(r'    "[A-Za-z]', line)]
    assert len(lines) > 15
    assert [line for line in lines if not re.search(r'",\s+# \w', line)] == []


def test_version_is_in_the_changelog(project: dict[str, Any]) -> None:
    version = project["project"]["version"]
    assert importlib.metadata.version("penstock") == version
    assert re.search(
        rf"^## \[{re.escape(version)}\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M
    )


# documents


def kernel_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return text[text.index("@ps.kernel") :].rstrip() + "\n"


def test_readme_shows_the_example() -> None:
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S
    )
    assert any(block.endswith(kernel_of(ROOT / "examples" / "logistic.py")) for block in blocks)
    assert all(len(block.splitlines()) <= 15 for block in blocks if "@ps.kernel" in block)


def test_readme_names_every_target() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in targets() if f"`{name}`" not in text] == []


def test_page_of_commands_names_every_command() -> None:
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert [name for name in program.commands if f"`penstock {name}" not in text] == []


def test_index_lists_every_page() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [name for name in sorted(pages) if name != "index.md" and f"]({name})" not in text] == []


def test_site_leads_to_every_page() -> None:
    """`nav` of mkdocs.yml has each page once, and none that is not there."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(re.findall(r"[\w/]+\.md", text)) == sorted(pages)


def _prose(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S)


def _anchors(path: Path) -> set[str]:
    """What can stand behind `#` in links to a page: its headings as GitHub and the site (mkdocs.yml, `slugify`) write them."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ +(.+?) *$", _prose(path.read_text(encoding="utf-8")), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        found[name] = found.get(name, -1) + 1
        if found[name]:
            found[f"{name}-{found[name]}"] = 0
    return set(found)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_anchors_are_there(path: Path) -> None:
    missing = []
    for target, anchor in re.findall(
        r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", _prose(path.read_text(encoding="utf-8"))
    ):
        page = path.parent / target if target else path
        if page.suffix == ".md" and page.is_file() and anchor not in _anchors(page):
            missing.append(f"{target}#{anchor}")
    assert missing == []


@pytest.mark.parametrize(
    "path",
    [path for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_pages_are_quick_to_read(path: Path) -> None:
    """No paragraph over 80 words, and no line over 100 columns but those of tables, links and what a command printed."""
    text = path.read_text(encoding="utf-8")
    by_hand = _prose(re.sub(r"<!-- begin .*?<!-- end .*?-->", "", text, flags=re.S))
    paragraphs = [
        block
        for block in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", by_hand)
        if not block.lstrip().startswith(("|", "#", "<"))
    ]
    assert [block[:60] for block in paragraphs if len(block.split()) > 80] == []
    lines = [
        line
        for line in by_hand.splitlines()
        if len(line) > 100 and not line.startswith("|") and "](" not in line
    ]
    assert lines == []


@pytest.mark.parametrize(
    "path",
    [path for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_blocks_begin_behind_a_blank_line(path: Path) -> None:
    """Headings, tables and lists, else the site shows them as text of the paragraph before."""
    lines = _prose(path.read_text(encoding="utf-8")).splitlines()
    joined = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if (line.startswith("#") and before.strip())
        or (line.startswith("|") and before.strip() and not before.startswith(("|", "<!--")))
        or (line.startswith("* ") and before.strip() and not before.startswith(("* ", "  ")))
    ]
    assert joined == []


def test_sources_name_pages_that_exist() -> None:
    """Every `docs/….md` in a comment, docstring or message."""
    missing = []
    for path in FILES:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for name in re.findall(r"(?<![\w/.-])docs/[\w/]+\.md", text):
            if not (ROOT / name).is_file():
                missing.append(f"{path.relative_to(ROOT)}: {name}")
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documents_name_what_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    missing = []
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
        if not (path.parent / target).exists():
            missing.append(f"link to {target}")
    # paths of the repository in commands and prose; capitals, stars and braces stand for something
    for name in re.findall(
        r"(?<![\w/.~-])((?:\.ci|benchmarks|docs|examples|scripts|studies|tests|boards|dsl|hdl|host|models|sim)/[\w./-]*\w)(?![\w*{<…])",
        text,
    ):
        if (
            not re.search(r"(?<![a-z])[A-Z]{2,}", name)
            and not any((base / name).exists() for base in (ROOT, path.parent))
            and not (ROOT / f"{name}.py").exists()
            and not (ROOT / f"{name}.heap").exists()
        ):
            missing.append(name)
    for command in re.findall(r"(?:^|`|bin/|\$ )penstock ([a-z]+)", text, re.M):
        if command not in program.commands:
            missing.append(f"the command penstock {command}")
    for module in re.findall(r"python3? -m (penstock[\w.]*)", text):
        if importlib.util.find_spec(module) is None:
            missing.append(f"the module {module}")
    assert missing == []


def _resolves(name: str) -> bool:
    """Whether a dotted name under `penstock` is a module, or something in one (fields of dataclasses and enums' members among them)."""
    parts = ["penstock", *name.split(".")]
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            annotated = {
                key
                for kind in getattr(found, "__mro__", ())
                for key in vars(kind).get("__annotations__", {})
            }
            if not hasattr(found, part):
                return part in annotated
            found = getattr(found, part)
        return True
    return False


#: dotted names in backticks that stand for something else: groups of entry points, files
NOT_MODULES = re.compile(
    r"penstock\.(engines|dialects|boards|papers|targets|transports|exports|v)$|.*\.(py|md|psk|bin|v)$"
)


def _stale(path: Path) -> list[str]:
    """The dotted names in backticks that begin with a package of Penstock and do not resolve."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(rf"`((?:penstock|{'|'.join(ROOMS)})(?:\.\w+)+)", text)
    return [
        f"{path.relative_to(ROOT)}: {name}"
        for name in dict.fromkeys(found)
        if not NOT_MODULES.match(name) and not _resolves(name.removeprefix("penstock."))
    ]


@pytest.mark.parametrize("room", [*ROOMS, "src"])
def test_docstrings_name_what_exists(room: str) -> None:
    """Every dotted name in backticks in a docstring or comment."""
    files = [path for path in room_files() if path.relative_to(ROOT).parts[0] == room]
    assert [name for path in files if path.suffix == ".py" for name in _stale(path)] == []


def test_documents_name_modules_that_exist() -> None:
    documents = [path for path in DOCUMENTS if path.name != "CHANGELOG.md"]
    assert [name for path in documents for name in _stale(path)] == []


def _targets(node: ast.Assign) -> int:
    """Return to how many names, or places, an assignment gives its value."""
    parts = [
        target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        for target in node.targets
    ]
    return max(len(node.targets), *map(len, parts))


def _required(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many parameters have no default, self and cls not counted."""
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    positional = names[1:] if names[:1] in (["self"], ["cls"]) else names
    return len(positional) - len(node.args.defaults) + node.args.kw_defaults.count(None)


def _too_large(tree: ast.Module) -> Iterator[str]:
    """Yield what cannot be seen at once."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if (lines := node.end_lineno - node.lineno + 1) > 60:
                yield f"{node.name} has {lines} lines"
            if (count := _required(node)) > 6:
                yield f"{node.name} requires {count} parameters"
        elif isinstance(node, ast.Assign) and (count := _targets(node)) > 3:
            yield f"line {node.lineno} has {count} targets"


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """The product's modules, parsed."""
    paths = [path for path in room_files() if path.suffix == ".py"]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def test_all_parts_are_seen_at_once(trees: Mapping[Path, ast.Module]) -> None:
    """No function of over 60 lines, or that requires over six parameters, and no assignment to over three targets."""
    large = [(path.name, each) for path, tree in trees.items() for each in _too_large(tree)]
    for path in (ROOT / "studies").rglob("*.py"):
        large += [(path.name, each) for each in _too_large(ast.parse(path.read_text()))]
    for path in (ROOT / "examples").rglob("*.py"):
        each_part = _too_large(ast.parse(path.read_text()))
        # the parameters of a kernel are its inputs
        large += [(path.name, each) for each in each_part if "requires" not in each]
    assert large == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n" + "    a = 1\n" * 60, "f has 61 lines"),
        ("def f(a, b, c, d, /, e, f, *, g): ...", "f requires 7 parameters"),
        ("def f(self, a, b, c, d, e, f, g=1, *, h=2): ...", None),
        ("a, b, c, d = e", "line 1 has 4 targets"),
        ("a = b = c = d = e", "line 1 has 4 targets"),
        ("def f():\n" + "    a, b, c = d\n" * 59, None),
    ],
)  # fmt: skip
def test_what_is_not_seen_at_once(text: str, found: str | None) -> None:
    assert [*_too_large(ast.parse(text))] == ([] if found is None else [found])


class Classes:
    """The classes of some modules, by module and name. Bases are looked up through each module's imports."""

    def __init__(self, trees: Mapping[str, ast.Module], packages: Set[str]) -> None:
        self.classes: dict[tuple[str, str], ast.ClassDef] = {}
        self.imports: dict[tuple[str, str], tuple[str, str]] = {}
        for module, tree in trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self.classes[module, node.name] = node
                elif isinstance(node, ast.ImportFrom):
                    above = module.split(".")[: None if module in packages else -1]
                    above = above[: len(above) - node.level + 1] if node.level else []
                    source = ".".join([*above, *filter(None, [node.module])])
                    for alias in node.names:
                        self.imports[module, alias.asname or alias.name] = source, alias.name

    def definition(self, module: str, name: str) -> tuple[str, str] | None:
        """Return where the class is defined that a module calls so; None for one of another distribution."""
        if (module, name) in self.classes:
            return module, name
        place = self.imports.get((module, name))
        return self.definition(*place) if place else None

    def bases(self, module: str, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
        for base in node.bases:
            base = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name):
                package = self.imports.get((module, base.value.id), ())
                place = self.definition(".".join(package), base.attr)
            else:
                place = self.definition(module, base.id) if isinstance(base, ast.Name) else None
            if place is not None:
                yield place

    def attributes(self, module: str, name: str) -> set[str]:
        """Return the attributes of a class and its bases, as `test_no_class_of_over_20_attributes` counts them."""
        node = self.classes[module, name]
        names = {
            part.target.id
            for part in node.body
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        }
        waiting: list[ast.AST] = [node]
        while waiting:
            inner = waiting.pop()
            waiting += [x for x in ast.iter_child_nodes(inner) if not isinstance(x, ast.ClassDef)]
            if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                if isinstance(inner.value, ast.Name) and inner.value.id == "self":
                    names.add(inner.attr)
        return names.union(*(self.attributes(*base) for base in self.bases(module, node)))


#: classes that are larger, to be split; the fields of `Target` are keys of users' files, and its attributes as they know them
LARGE = {
    "penstock.models.target.Target",
}


def test_no_class_of_over_20_attributes(trees: Mapping[Path, ast.Module]) -> None:
    """A class's attributes are those that its methods write (`self.x = …`), and the names that its
    body annotates: fields of dataclasses, members of components and what subclasses set, `ClassVar`s
    among them. Those of its bases count. Properties, and constants without an annotation, do not."""
    modules = {
        ".".join(["penstock", *Path(installed_as(path)).with_suffix("").parts]): path
        for path in trees
    }
    names = {module: module.removesuffix(".__init__") for module in modules}
    packages = {name for module, name in names.items() if module != name}
    classes = Classes({names[m]: trees[path] for m, path in modules.items()}, packages)
    assert {
        ".".join(name) for name in classes.classes if len(classes.attributes(*name)) > 20
    } == LARGE


def test_attributes_of_classes() -> None:
    trees = {
        "p": "from .a import A as B",
        "p.a": "class A:\n    x: int\n    def f(self):\n        self.y, a.z = 1, 2\n        self.x += 1",
        "p.b": "from p import B\nfrom . import a\n"
        "class C(B):\n    v = 1\n    w: ClassVar[int] = 1\n    class D:\n        u: int\n"
        "class E(a.A, Generic[T]):\n    @property\n    def g(self): return self.t",
    }
    classes = Classes({name: ast.parse(text) for name, text in trees.items()}, {"p"})
    assert {name: classes.attributes(*name) for name in classes.classes} == {
        ("p.a", "A"): {"x", "y"},
        ("p.b", "C"): {"x", "y", "w"},
        ("p.b", "D"): {"u"},
        ("p.b", "E"): {"x", "y"},
    }


def test_hardware_is_made_in_one_order() -> None:
    """No statement goes through a set, whose order is another one in each process."""
    sets = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
    for path in (ROOT / "hdl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.For):
                made = getattr(node.iter, "op", node.iter)
                assert not isinstance(made, (*sets, ast.Set, ast.SetComp)), (path, node.lineno)


def test_scripts_can_be_run() -> None:
    for name in (
        "scripts/demo",
        "scripts/docs",
        "scripts/test",
        "scripts/with-postgres",
        ".ci/run",
    ):
        assert os.access(ROOT / name, os.X_OK), name
        assert subprocess.run(["bash", "-n", ROOT / name]).returncode == 0


# nothing of one machine

#: folders that only one machine has; the names are in pieces so that this file does not find itself
MACHINE = re.compile(
    "|".join(
        rf"(?<![\w.}}*$-])/{name}/(?=\w)"
        for name in ("wo" + "rk", "ro" + "ot", "ho" + "me", "op" + "t", "Us" + "ers")
    )
)
REGISTRY = re.compile(
    "|".join(
        (
            "pypi" + r"\.org",
            "python" + "hosted",
            "npm" + r"js\.(?:org|com)",
            "extra-" + "index",
            "index-" + "url",
            "find-" + "links",
            "arti" + "factory",
            r"://[\w.-]*mirror" + r"[\w.-]*/",
            r"deb\.deb" + r"ian\.org",
        )
    )
)


def test_names_are_listed_where_they_are_passed_on() -> None:
    """A module's public names are those without an underscore: `__all__` would list them again. Packages and modules that
    pass on what others define need it."""
    for path in room_files():
        text = path.read_text(encoding="utf-8") if path.suffix == ".py" else ""
        if "\n__all__ = " in text:
            body = ast.parse(text).body
            imported = {
                name.asname or name.name
                for node in body
                if isinstance(node, ast.ImportFrom)
                for name in node.names
            }
            listed = text.partition("\n__all__ = ")[2].partition("]")[0]
            assert imported & set(re.findall(r'"(\w+)"', listed)), f"{path}: delete __all__"


def test_no_path_and_no_registry_of_a_machine() -> None:
    found = []
    for path in FILES:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE.search(line) or REGISTRY.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert found == []
