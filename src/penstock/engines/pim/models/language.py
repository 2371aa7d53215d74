"""`penstock.LanguageModel`: from a folder of weights to text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock.api import compile
from penstock.dsl.core.load import from_text
from penstock.engines.base import Design
from penstock.errors import no_option
from penstock.models.inputs import Input

from ..session import PimSession
from .layers import Held, Network, exact
from .readers import reader_of
from .serving import Sampler, Serving, checked
from .weights import Config, Weights, opened, unread, untaken

Array = NDArray[Any]
_TOKENIZER = Input("a tokenizer", "copy the file again", unread)
_TEXT = Input("one that the tokenizer takes", "are its characters in the vocabulary?", untaken)
#: a step of all families; `wide`: each element of a key has a decay of its own
_KERNEL = """
recurrence {name}(S: state[k, v], rate: input{wide}, key: input[k], value: input[v], query: input[k])
  S <- (1 - rate){column} * S + outer(key, value)
  y <- query @ S
"""


@dataclass(frozen=True)
class Generated:
    """A text that a model went on with. `text`: None where the model takes ids only.

    Beside float64, over the same ids: `logits`: the RMS error of the logits, as part of float64's spread; `other`: how many ids it would have
    drawn otherwise, with the same random numbers; `errors`: of the recurrences, with the bound, as a session has them.
    """

    ids: list[int]
    text: str | None
    cycles: int | None
    logits: float
    other: int
    errors: Mapping[str, Any]

    def __str__(self) -> str:
        return self.text if self.text is not None else " ".join(map(str, self.ids))


@dataclass(frozen=True)
class Perplexity:
    """How surprised a model is by each next id: `value` with the states in the banks, `float64`: of the same model without. `errors`: as in
    `Generated`."""

    value: float
    float64: float
    ids: int
    cycles: int | None
    errors: Mapping[str, Any]

    def __float__(self) -> float:
        return self.value


class LanguageModel:
    """A language model of recurrences, whose states lie beside the banks of a DRAM.

    Host layers (embedding, projections, norms, gates, convolutions) are NumPy's, in float32; the recurrences are the units'.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        tensors: Mapping[str, Any],
        place: str,
        tokenizer: Any,
        options: Mapping[str, Any],
    ) -> None:
        self.config, self.place = dict(config), place
        self._tensors, self._tokenizer, self._options = tensors, tokenizer, dict(options)
        self._designs: dict[int, Design] = {}
        self._network = self._read(np.float32)
        self._ends = Config(config, place, {}).ids("eos_token_id")
        for name in ("batch", "heads", "dims", "layers", "table", "kernel"):
            if name in options:
                raise no_option("a language model", name, (), ": its configuration says it")
        self.design()  # says what is wrong with the options

    @classmethod
    def load(
        cls,
        source: str | Path | Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> LanguageModel:
        """Return the model in a folder, or of a state_dict.

        Parameters: `source`: a folder with config.json, *.safetensors and, for text, tokenizer.json; or tensors by name, NumPy's or torch's,
        with their `config`; `options`: as `compile` takes them: `target`, `format`, `banks`, `schedule`, `dram`, …

        Layouts that are read: Mamba-2 of transformers and of mamba_ssm, RetNet and GLA of flash-linear-attention. Needs the extra `language`.

        Raises ModelError (E468), with the name of a tensor that is missing, unknown, misshapen or not finite; KernelError for the options.
        """
        if config is not None and not isinstance(config, Mapping):
            raise unread(
                f"the configuration is {config!r}", "it holds sizes by name, as config.json"
            )
        if isinstance(source, Mapping):
            if config is None:
                raise unread("a state_dict needs its configuration", "load(tensors, config)")
            return cls(config, source, "the state_dict", None, options)
        if not isinstance(source, (str, Path)):
            hint = "give a folder, or tensors by name"
            raise unread(f"{source!r} is no model", hint)
        folder = Path(source)
        values, tensors = opened(folder)
        return cls({**values, **(config or {})}, tensors, str(folder), _tokenizer(folder), options)

    @cached_property
    def _exact(self) -> Network:
        return self._read(np.float64)

    def _read(self, dtype: type[np.floating[Any]]) -> Network:
        return reader_of(self.config, self.place)(
            self.config, Weights(self._tensors, self.place, dtype)
        )

    def __repr__(self) -> str:
        return f"<LanguageModel {self.config.get('model_type', 'mamba2')}: {len(self._network.blocks)} layers>"

    def design(self, requests: int = 1) -> Design:
        """Return the device of the model with room for so many requests. Raises KernelError."""
        if requests not in self._designs:
            network = self._network
            heads, k, v = network.sizes
            wide, column = ("[k]", "[:, None]") if network.wide else ("", "")
            name = str(self.config.get("model_type", "mamba2"))
            kernel = from_text(_KERNEL.format(name=name, wide=wide, column=column))
            sizes: dict[str, Any] = {"batch": requests, "heads": heads, "dims": {"k": k, "v": v}}
            self._designs[requests] = compile(
                kernel, layers=len(network.blocks), **{**self._options, **sizes}
            )
        return self._designs[requests]

    def open(self, backend: str = "golden", *, requests: int = 1, **options: Any) -> Serving:
        """Return a session: requests that join with a prompt, get ids, and leave.

        Parameters: `backend` and `options`: as `Design.open` takes them; `requests`: how many the device has room for, at least.
        """
        if isinstance(requests, bool) or not isinstance(requests, int) or requests < 1:
            raise untaken(f"requests is {requests!r}", "it is a whole number, 1 or more")
        session = self.design(requests).open(backend, **options)
        return Serving(self._network, cast(PimSession, session))

    # -- text

    def ids(self, text: str | Iterable[int]) -> list[int]:
        """Return the ids of a text, as the model's tokenizer has them; ids stay. Raises ModelError (E469)."""
        if not isinstance(text, str):
            return checked(text, len(self._network.embedding))
        if self._tokenizer is None:
            hint = "give ids, or a folder with tokenizer.json"
            raise untaken("the model has no tokenizer: it takes ids only", hint)
        with _TEXT.parsing("the text"):  # the library has no exceptions of its own
            ids = self._tokenizer.encode(text).ids
        return checked(ids, len(self._network.embedding))

    def text(self, ids: Sequence[int]) -> str | None:
        """Return the text of ids, None where the model has no tokenizer."""
        return None if self._tokenizer is None else str(self._tokenizer.decode(list(ids)))

    def logits(self, text: str | Iterable[int]) -> Array:
        """Return the logits (ids, vocabulary) behind each id of a text in float64, without any device. Raises ModelError (E469)."""
        return self._in_float64(self.ids(text))

    def _in_float64(self, ids: Sequence[int]) -> Array:
        held: dict[int, list[Held]] = {0: [{} for _ in self._exact.blocks]}
        return self._exact.logits({0: ids}, held, exact(held))[0]

    def generate(
        self,
        prompt: str | Iterable[int],
        *,
        tokens: int = 100,
        seed: int = 1,
        temperature: float = 1.0,
        backend: str = "golden",
        **options: Any,
    ) -> Generated:
        """Return how the model goes on.

        Parameters: `tokens`: how many at most: it ends at the id that config.json calls `eos_token_id`; `seed`, `temperature`: as
        `Serving.join` takes them; `backend`, `options`: as `open` does.

        Raises ModelError (E469) for a prompt that is not one.
        """
        first, ids = self.ids(prompt), list[int]()
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
            raise untaken(f"tokens is {tokens!r}", "it is a whole number, 1 or more")
        taken = []
        with self.open(backend, **options) as serving:
            request, feed = serving.join(first, seed=seed, temperature=temperature), first
            sampler = Sampler(seed, temperature)
            while len(ids) < tokens and ids[-1:] not in [[end] for end in self._ends]:
                taken.append(serving.take({request: feed})[request][-1])
                feed = sampler.draw(taken[-1])
                ids += feed
            cycles, errors = serving.cycles, serving.errors
        beside = self._in_float64([*first, *ids[:-1]])[len(first) - 1 :]
        again = Sampler(seed, temperature)
        other = sum(len(set(again.draw(*pair))) > 1 for pair in zip(taken, beside, strict=True))
        spread = float(beside.std()) or 1.0
        far = float(np.sqrt(((np.array(taken) - beside) ** 2).mean())) / spread
        return Generated(ids, self.text(ids), cycles, far, other, errors)

    def perplexity(
        self, text: str | Iterable[int], *, seed: int = 1, backend: str = "golden", **options: Any
    ) -> Perplexity:
        """Return the perplexity of a text, all of whose ids but the first are guessed from those before. Raises ModelError (E469)."""
        ids = self.ids(text)
        if len(ids) < 2:
            raise untaken("a perplexity needs two ids or more", "give a longer text")
        with self.open(backend, **options) as serving:
            request = serving.join(ids[:-1], seed=seed)
            logits = serving.take({request: ids[:-1]})[request]
            cycles, errors = serving.cycles, serving.errors
        value, beside = (_surprise(x, ids[1:]) for x in (logits, self._in_float64(ids[:-1])))
        return Perplexity(value, beside, len(ids), cycles, errors)


def _surprise(logits: Array, ids: Sequence[int]) -> float:
    x = logits.astype(np.float64)
    x = x - x.max(axis=1, keepdims=True)
    chosen = x[np.arange(len(ids)), list(ids)]
    return float(np.exp((np.log(np.exp(x).sum(axis=1)) - chosen).mean()))


def _tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a folder, None where it has none. Raises ModelError (E468)."""
    file = folder / "tokenizer.json"
    if not file.exists():
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:  # pragma: no cover - an environment without it
        hint = "pip install 'penstock[language]', or leave the file out: the model takes ids then"
        raise unread(f"{file} is read by tokenizers", hint) from None
    text = _TOKENIZER.text(file)
    with _TOKENIZER.parsing(file):
        tokenizer = Tokenizer.from_str(text)
        # what fits several texts into one array: of no use to a prompt, which it would change
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer
