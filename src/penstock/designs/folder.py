"""Folders of designs: the manifest says what stands in every file, itself included, and who reads one compares.

Digests find what was changed, cut or mixed up. They keep nobody out who computes them anew: what of a folder would be run is made anew,
or needs its user's word (docs/explanation/trust.md).
"""

import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from operator import index
from pathlib import Path
from typing import Any

from penstock.dsl.core.diagnostics import Diagnostic, KernelError, Span, error
from penstock.models.inputs import Input
from penstock.output import MANIFEST, OutputError, as_json

#: of manifests: version 1 could not be checked, version 2 named a target that had to be known, version 3 had recurrences by decays and
#: fits over columns of one format, version 4 had recurrences that load zeros
FORMAT = 5
AGAIN = "write it again with penstock compile or penstock build"
_CHANGED = "was changed after the design was saved: its digest is another"
_WRITERS = "penstock compile and penstock build write such folders, run.save those of runs"

# `as_json` indents the manifest's own entries, and no others, by one space
_DIGEST = re.compile(rb'^ "sha256": "([0-9a-f]{64})",?$', re.MULTILINE)
_FORMAT = re.compile(rb'^ "penstock": (\d+),?$', re.MULTILINE)
#: options of `penstock compile` that name no file to write and trust nobody, with values that no shell reads
_OPTIONS = re.compile(
    r"(?!.*//)( --(?!(?:out|json|report|trust)(?: |$))[a-z-]+( (?!-)[\w@%+=:,./-]+)?)+", re.ASCII
)
_BLANK = b"0" * 64
#: the longest text of a manifest: far beyond that of any design
_LONGEST = 1 << 28


class FolderError(KernelError, ValueError):
    """A folder holds no design, or not the one that was saved (E806)."""


def unfit(what: str, hint: str) -> FolderError:
    """Return the error of a file that does not hold what it should."""
    return FolderError(Diagnostic("E806", what, Span.whole("folder"), hint=hint))


_JSON = Input("JSON", AGAIN, unfit)


def folder_error(place: Path, what: str, hint: str = AGAIN) -> FolderError:
    """Return the error that concerns a file of a design's folder, or the folder. A terminal obeys nothing in it."""
    texts = (str(place), what)
    where, shown = ("".join(c if c.isprintable() else "\ufffd" for c in text) for text in texts)
    return FolderError(Diagnostic("E806", f"{where} {shown}", Span.whole(where), hint=hint))


def untrusted(what: str, where: str, why: str) -> KernelError:
    """Return the error for what would be run, where nobody has said that it may be (E807); `where`: what names it."""
    hint = f"--trust runs it; {why}"
    return error("E807", what, Span.whole(where), hint=hint)


def again(place: Path, manifest: Any) -> str:
    """Return the command that makes the folder of a manifest anew, as far as that says it in words that no shell reads."""
    try:
        board, target = manifest.get("board"), manifest["target"]
        words = ["build", "--board", board["name"]] if board else ["compile", "--target"]
        words += [] if board else [target["name"] if isinstance(target, dict) else target]
        if not re.fullmatch(r"[A-Za-z0-9][\w.+-]{0,63}", words[2], re.ASCII):
            return AGAIN
    except (AttributeError, LookupError, TypeError):
        return AGAIN
    asked = f" {manifest.get('asked', '')}"
    command, *options = words
    more = asked if _OPTIONS.fullmatch(asked) else ""
    return f"penstock {command} KERNEL {' '.join(options)}{more} --out {shlex.quote(str(place.parent))}"


def sealed(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files and `manifest.json`, which has size and digest of each, and its own digest.

    Raises OutputError for a manifest so long that it would not be read again.
    """
    facts = {name: _facts(data) for name, data in files.items()}
    text = as_json({**manifest, "penstock": FORMAT, "files": facts, "sha256": _BLANK.decode()})
    if len(text) > _LONGEST:
        raise OutputError(f"the manifest would have {len(text)} bytes", "take a smaller kernel")
    return {**files, MANIFEST: _marked(text, hashlib.sha256(text).hexdigest().encode())}


def _facts(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _marked(text: bytes, digest: bytes) -> bytes:
    return _DIGEST.sub(lambda match: match[0].replace(match[1], digest), text)


def read_folder(folder: str | Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a design's manifest and its other files, by name, after comparing all of them with
    what was saved. Files that the manifest does not list are not read.

    Raises FolderError, which names the first file that is missing, cut or changed.
    """
    place = Path(folder) / MANIFEST
    manifest = _parsed(place, _content(place, _LONGEST))
    if "export" in manifest:
        raise folder_error(place.parent, "holds a core, no design: export wrote it", _WRITERS)
    files = {}
    try:
        listed = {
            place.with_name(name): (index(facts["bytes"]), facts["sha256"])
            for name, facts in manifest["files"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise folder_error(place, "does not say what the other files hold") from None
    for path, (size, digest) in listed.items():
        data = files[path.name] = _content(path, size, hint := again(place, manifest))
        if len(data) < size:
            raise folder_error(path, f"was cut: it has {len(data)} of {size} bytes", hint)
        if _facts(data)["sha256"] != digest:
            raise folder_error(path, _CHANGED, hint)
    return manifest, files


def _content(path: Path, most: int, hint: str = AGAIN) -> bytes:
    """Return what a file of no more than `most` bytes holds."""
    if path.name == MANIFEST and not os.path.exists(path):
        raise folder_error(path.parent, f"holds no design: it has no {MANIFEST}", _WRITERS)

    def failed(what: str, hint: str) -> FolderError:
        return folder_error(path, what.removeprefix(f"{path} "), hint)

    return Input("what was saved", hint, failed, most).data(path)


def _parsed(place: Path, text: bytes) -> dict[str, Any]:
    """Return what a manifest says. Nothing is made of a text other than the one that was saved."""
    version = _FORMAT.search(text)
    if version and version[1] != b"%d" % FORMAT:
        other = f"is of format {version[1][:40].decode()}, and this Penstock reads format {FORMAT}"
        try:
            hint = again(place, _JSON.json_of(text, place))
        except FolderError:
            hint = AGAIN
        raise folder_error(place, other, hint)
    digests = _DIGEST.findall(text)
    if len(digests) != 1:
        raise folder_error(place, "was cut or changed: its own digest is not in it")
    if hashlib.sha256(_marked(text, _BLANK)).hexdigest().encode() != digests[0]:
        raise folder_error(place, _CHANGED)
    manifest: dict[str, Any] = _JSON.json_of(text, place)
    if version is None:
        raise folder_error(place, "does not say its format")
    return manifest
