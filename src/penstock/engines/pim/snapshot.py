"""A request's states as bytes: a file of safetensors, with what they belong to.

`layers.N.state` (heads, columns, slices of dim_head, 32) has the bytes of each sub-chunk, as the banks hold them, of each layer that took a
token. The header's metadata have the rest as JSON, and a digest of all.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.engines.session import SessionError
from penstock.models.inputs import Input, InputError

from .requests import Layer, State

Bytes = NDArray[np.uint8]
#: what the metadata call it, with the number of its form
_FORM = "penstock.session.3"
FORM = Input("that of a session", "", lambda *_: InputError("no session wrote it"))


def packed(tensors: Mapping[str, Bytes], note: Mapping[str, Any]) -> bytes:
    """Return arrays of bytes, and what is said of them."""
    table: dict[str, Any] = {}
    at = 0
    for name, array in tensors.items():
        ends = [at, at := at + array.nbytes]
        table[name] = {"dtype": "U8", "shape": list(array.shape), "data_offsets": ends}
    text, content = json.dumps(note), b"".join(array.tobytes() for array in tensors.values())
    metadata = {_FORM: text, "sha256": _digest(text, table, content)}
    head = json.dumps({"__metadata__": metadata, **table}).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + content


def unpacked(data: bytes) -> tuple[dict[str, Bytes], dict[str, Any]]:
    """Return what was packed. Raises InputError, with the reason, for anything else."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise InputError("it is no file of safetensors, or the beginning of one")
    content = data[8 + size :]
    with FORM.parsing(""):
        table = FORM.json_of(data[8 : 8 + size], "")
        metadata = table.pop("__metadata__")
        text, digest = metadata[_FORM], metadata["sha256"]
        if digest != _digest(text, table, content):
            raise InputError("bytes of it are missing, or others than were written")
        buffer, tensors = np.frombuffer(content, dtype=np.uint8), {}
        for name, entry in table.items():
            begin, end = entry["data_offsets"]
            tensors[name] = buffer[begin:end].reshape(entry["shape"])
        return tensors, FORM.json_of(text, "")


def snapshot_of(design: Any, state: State, tensors: Mapping[str, Bytes]) -> bytes:
    """Return a request's snapshot; `tensors`: by layer, the columns that the banks hold."""
    held = [{name: x.tolist() for name, x in states.items()} for states in state.held]
    note = {"seed": state.seed, "request": state.request, "tokens": state.tokens, "held": held}
    return packed(tensors, {**_kind(design), **note})


def restored(
    data: Any, design: Any, state: State, layers: Sequence[tuple[Layer, ...]]
) -> dict[int, list[Bytes]]:
    """Set `state` to what a snapshot says of its request; return the parts of each layer that took a token. Raises SessionError (E467)."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        what = f"a snapshot is bytes, not {type(data).__name__}"
        raise SessionError(what, "session.snapshot(request) gives them", code="E467")
    try:
        tensors, note = unpacked(bytes(data))
        for name, kind in _kind(design).items():
            if note.get(name) != kind:
                what = f"the snapshot is of another design: its {name} are {note.get(name)}, the session's {kind}"
                raise SessionError(what, "compile the design as that one was", code="E467")
        with FORM.parsing(""):  # anybody can compute the digest
            numbers, parts = [note["seed"], note["request"], *note["tokens"]], {}
            state.seed, state.request, *state.tokens = map(index, numbers)
            for n, (tokens, layer) in enumerate(zip(state.tokens, layers, strict=True)):
                if tokens < 0 or any(x.begun(tokens) > x.one.chunks for x in layer):
                    raise ValueError
                if tokens:
                    parts[n] = [one.parts(tensors[one.name]) for one in layer]
                    for name, none in state.held[n].items():
                        value = np.array(note["held"][n][name], np.float64)
                        state.held[n][name] = value.reshape(none.shape)
            return parts
    except InputError as problem:
        hint = "take it again, and keep all of its bytes"
        raise SessionError(f"this is no snapshot: {problem}", hint, code="E467") from None


def _kind(design: Any) -> dict[str, Any]:
    """Return what designs have alike that take each other's snapshots."""
    device = design.device
    return {
        "format": device.format,
        "rounding": "stochastic" if device.stochastic else "nearest",
        # which number takes which of a request's random bits
        "units": [device.design.banks, device.stripes] if device.stochastic else [],
        "heads": design.heads,
        "layers": [
            [
                f"{one.name} {one.digest}",
                *(n for part in one.parts for n in part.form[1:]),
                one.turned,
            ]
            + ([] if one.values is None else [design.group])
            for one in design.stack
        ],
    }


def _digest(text: str, table: Mapping[str, Any], content: bytes) -> str:
    return hashlib.sha256(json.dumps([text, table]).encode() + content).hexdigest()
