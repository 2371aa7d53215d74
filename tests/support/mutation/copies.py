"""A copy of this checkout with an environment of its own: what is worked on may change meanwhile."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: where the sources of `penstock` lie; the other packages are its sub-packages
PACKAGES = ("src/penstock", "boards", "dsl", "hdl", "host", "models", "sim")


class Copy:
    """The files that git knows or would add, and an environment in which `penstock` is this copy."""

    def __init__(self, folder: Path, checkout: Path = ROOT) -> None:
        self.folder, self.tree, self.checkout = folder, folder / "tree", checkout
        self.python = folder / "environment" / "bin" / "python"

    def renew(self) -> None:
        """Make it equal to the checkout; compiled modules stay where the source did."""
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(
            listed, cwd=self.checkout, capture_output=True, text=True, check=True
        ).stdout
        wanted = {name for name in names.split("\0") if name and (self.checkout / name).is_file()}
        for path in [*self.tree.rglob("*")] if self.tree.is_dir() else []:
            if path.is_file() and path.suffix != ".pyc" and self.name(path) not in wanted:
                path.unlink()
        for name in wanted:
            source, target = self.checkout / name, self.tree / name
            if not target.is_file() or source.read_bytes() != target.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)  # a new time of change: its compiled module is stale
        if not self.python.exists():
            self._environment()

    def name(self, path: Path) -> str:
        return path.relative_to(self.tree).as_posix()

    def _environment(self) -> None:
        home = self.python.parent.parent
        venv.create(home, symlinks=True)
        packages = Path(next(iter(home.glob("lib/python3*/site-packages"))))
        folders = {"penstock": str(self.tree / PACKAGES[0])}
        folders |= {f"penstock.{name}": str(self.tree / name) for name in PACKAGES[1:]}
        finder = Path(__file__).with_name("finder.py").read_text()
        (packages / "copied_checkout.py").write_text(f"{finder}FOLDERS |= {folders!r}\n")
        lines = [f"import site; site.addsitedir({name!r})" for name in site.getsitepackages()]
        (packages / "copied.pth").write_text("\n".join([*lines, "import copied_checkout", ""]))
        for program in Path(sys.executable).parent.iterdir():
            made = self.python.parent / program.name
            if made.exists() or not program.is_file():
                continue
            head, _, rest = program.read_bytes().partition(b"\n")
            if head.startswith(b"#!") and b"python" in head:
                made.write_bytes(b"#!" + str(self.python).encode() + b"\n" + rest)
                made.chmod(0o755)
            elif not program.is_symlink():
                made.symlink_to(program)

    def variables(self, cache: Path) -> dict[str, str]:
        """Return the environment of its tests: a cache of its own, and this package to be imported."""
        dropped = ("PENSTOCK_PG", "PYTEST_", "MUTATION_", "PYTHONDONTWRITEBYTECODE")
        kept = {k: value for k, value in os.environ.items() if not k.startswith(dropped)}
        path = f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        support = Path(__file__).resolve().parents[1]
        told = {"PATH": path, "PYTHONPATH": str(support), "PENSTOCK_CACHE": str(cache)}
        return (
            kept | told | {"PYTEST_TIMEOUT": "0"}
        )  # its signal is the one that MUTATION_SECONDS takes
