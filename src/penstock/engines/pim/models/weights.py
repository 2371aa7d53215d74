"""What a folder of weights holds: a configuration and tensors by name, each held against what a layer must have."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.core.hints import closest
from penstock.models.errors import Error
from penstock.models.inputs import MEMORY, Input

Array = NDArray[Any]
#: safetensors' names of what weights are stored in; BF16 is the upper half of a float32
_STORED = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class ModelError(Error):
    """A model that cannot be read (E468), or what it is asked for and does not do (E469)."""


def unread(message: str, hint: str) -> ModelError:
    return ModelError(message, hint, code="E468")


def untaken(message: str, hint: str) -> ModelError:
    return ModelError(message, hint, code="E469")


_CONFIG = Input("a configuration", "a model is a folder with config.json and *.safetensors", unread)
_TENSORS = Input("a file of safetensors", "copy the file again", unread, MEMORY, (8, b"{"))


def opened(folder: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the configuration and the tensors of a folder. Raises ModelError (E468)."""
    place = folder / "config.json"
    config = _CONFIG.json(place)
    files = sorted(folder.glob("*.safetensors"))
    if not isinstance(config, dict):
        raise unread(f"{place} is no JSON object", "it holds sizes by name")
    if not files:
        hint = "of a pickled state_dict: ps.LanguageModel.load(torch.load(file, weights_only=True), config)"
        raise unread(f"{folder} has no file *.safetensors", hint)
    tensors: dict[str, Array] = {}
    for file in files:
        for name, value in _stored(file):
            if name in tensors:
                hint = "leave one of the files out"
                raise unread(f"{file}: {name} is in another file too", hint)
            tensors[name] = value
    return config, tensors


def _stored(file: Path) -> list[tuple[str, Array]]:
    """Return the tensors of a file; BF16 becomes float32. Raises ModelError."""
    try:
        import safetensors
    except ImportError:  # pragma: no cover - an environment without it
        hint = "pip install 'penstock[language]'"
        raise unread("weights are read by safetensors", hint) from None
    data, tensors = _TENSORS.data(file), []
    with _TENSORS.parsing(file):
        for name, entry in safetensors.deserialize(data):
            if entry["dtype"] not in _STORED:
                hint = f"weights are {', '.join(_STORED)}: not quantised"
                what = f"{file}: the tensor {name} is stored as {entry['dtype']}"
                raise unread(what, hint)
            value = np.frombuffer(entry["data"], dtype=_STORED[entry["dtype"]])
            if entry["dtype"] == "BF16":
                value = (value.astype("<u4") << 16).view("<f4")
            tensors.append((name, value.reshape(entry["shape"])))
    return tensors


def _plain(name: str, value: Any) -> Array:
    """Return a tensor of a state_dict, of torch too, as an array. Raises ModelError."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value if value.element_size() > 4 else value.float()  # NumPy has no bfloat16
    try:
        array = np.asarray(value)
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if array.dtype.kind != "f":
        hint = "weights are floating-point numbers"
        raise unread(f"the tensor {name} holds {array.dtype}", hint)
    return array


class Weights:
    """Tensors by name, which a reader takes, each once."""

    def __init__(
        self, tensors: Mapping[str, Any], place: str, dtype: type[np.floating[Any]]
    ) -> None:
        self._tensors, self.place, self.dtype = tensors, place, dtype
        self._left, self._missing = set(tensors), list[str]()
        self.count = len(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, *shape: int) -> Array:
        """Return a tensor; zeros where it is missing, until `end`. Raises ModelError (E468) where it is misshapen or not finite."""
        if name not in self._tensors:
            self._missing.append(name)
            return np.broadcast_to(self.dtype(0), shape)
        self._left.discard(name)
        value = _plain(name, self._tensors[name])
        if value.shape != shape:
            turned = value.shape == shape[::-1] and "it is transposed"
            hint = turned or "config.json describes other sizes"
            what = f"the tensor {name} of {self.place} has the shape {value.shape}, not {shape}"
            raise unread(what, hint)
        if not np.isfinite(value).all():
            at = np.argwhere(~np.isfinite(value))[0].tolist()
            what = f"the tensor {name} of {self.place} is {value[tuple(at)]} at {at}"
            raise unread(what, "weights are finite; copy the file again")
        return np.ascontiguousarray(value, dtype=self.dtype)

    def head(self, name: str, embedding: Array, tied: bool) -> Array:
        """Return the output layer's tensor: the embedding where they are tied. Raises ModelError."""
        if not tied:
            return self.take(name, *embedding.shape)
        if name in self and (self.take(name, *embedding.shape) != embedding).any():
            what = (
                f"the tensor {name} of {self.place} differs from the embedding, and both are tied"
            )
            raise unread(what, "is tie_word_embeddings right in config.json?")
        return embedding

    def end(self, family: str) -> None:
        """Raise ModelError (E468) for tensors that are missing, and for those that nobody has taken."""
        left = sorted(map(str, self._left))
        for names, lack in ((self._missing, "has no"), (left, "has an unknown")):
            if names:
                near = closest(names[0], left) if names is self._missing else ""
                more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                what = f"{self.place} {lack} tensor {names[0]}{more}, for a model of {family}"
                hint = near or "config.json describes other layers"
                raise unread(what, hint)


def _real(value: Any) -> bool:
    """Return whether a value is a number that a float holds."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


class Config:
    """Sizes and choices by name, as config.json has them."""

    def __init__(self, values: Mapping[str, Any], place: str, defaults: Mapping[str, Any]) -> None:
        self._values, self.place = {**defaults, **values}, place

    def _wrong(self, name: str, what: str) -> ModelError:
        value = self._values.get(name)
        message = (
            f"{self.place}: {name} is {value!r}"
            if name in self._values
            else f"{self.place}: there is no {name}"
        )
        return unread(message, what)

    def size(self, name: str) -> int:
        """Return a size, 1 or more."""
        value: Any = self._values.get(name)
        if not (_real(value) and value > 0 and value % 1 == 0):
            raise self._wrong(name, "it is a whole number, 1 or more")
        return int(value)

    def number(self, name: str, least: float = -np.inf) -> float:
        value: Any = self._values.get(name)
        if not (_real(value) and value >= least):
            raise self._wrong(name, "it is a finite number" + " from 0" * (least == 0))
        return float(value)

    def truth(self, name: str) -> bool:
        value = self._values.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "it is true or false")
        return bool(value)

    def layers(self, name: str, weights: Weights) -> range:
        """Return the layers' numbers: each layer has a tensor or more."""
        if (layers := self.size(name)) > weights.count:
            raise self._wrong(name, f"there are {weights.count} tensors")
        return range(layers)

    def ids(self, name: str) -> list[int]:
        """Return the ids under a name: one, a list, or none."""
        value = self._values.get(name)
        ids = value if isinstance(value, list) else [] if value is None else [value]
        if any(type(each) is not int or each < 0 for each in ids):
            raise self._wrong(name, "it is an id, or a list of ids")
        return ids

    def get(self, name: str) -> Any:
        return self._values.get(name)

    def only(self, **values: Any) -> None:
        """Raise ModelError (E468) where a choice is another one than those that the layers know; each is a value, or a tuple of some."""
        for name, known in values.items():
            choices = known if isinstance(known, tuple) else (known,)
            if self._values.get(name) not in choices:
                text = " or ".join(map(repr, choices))
                raise self._wrong(name, f"models with {text} are read")

    def divided(self, name: str, by: str) -> int:
        """Return one size divided by another."""
        size, part = self.size(name), self.size(by)
        if size % part:
            raise self._wrong(by, f"it divides {name}, which is {size}")
        return size // part
