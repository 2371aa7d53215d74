"""Language models from folders of weights: logits beside those of the classes that wrote them, perplexity, text on every backend, refusals.

`checkpoints` is written by benchmarks/pim_checkpoints.py: `mamba2` is trained, the others are random; check.npz has the logits of
transformers' and flash-linear-attention's own classes.
"""

from __future__ import annotations

import importlib
import json
import shutil
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import penstock as ps
from penstock.engines.pim.models.layers import Norm
from penstock.engines.pim.models.weights import ModelError
from penstock.engines.session import SessionError
from penstock.errors import OptionError
from penstock.host.sources.errors import SourceError

FOLDER = Path(__file__).with_name("checkpoints")
LAYOUTS = ("mamba2", "mamba2_groups", "retnet", "gla")


@cache
def model(name="mamba2", **options):
    return ps.LanguageModel.load(FOLDER / name, **options)


@cache
def check(name="mamba2"):
    with np.load(FOLDER / name / "check.npz") as found:
        return dict(found)


@cache
def parts(name="mamba2"):
    """Configuration and tensors of a checkpoint in float32 or float16."""
    config = json.loads((FOLDER / name / "config.json").read_text())
    return config, load_file(FOLDER / name / "model.safetensors")


# -- logits and perplexity


@pytest.mark.parametrize("name", LAYOUTS)
def test_logits_are_those_of_the_class_that_wrote_them(name):
    found, begin = check(name), 0
    for end in found["ends"].tolist():
        ids, logits = found["ids"][begin:end].tolist(), found["logits"][begin:end]
        assert np.abs(model(name).logits(ids) - logits).max() <= 1e-5 * np.abs(logits).max()
        begin = end


def authors(config, tensors):
    """A checkpoint of transformers' as mamba_ssm writes it."""
    ssm = {
        "layer": "Mamba2",
        "d_state": config["state_size"],
        "headdim": config["head_dim"],
        "ngroups": config["n_groups"],
        "dt_limit": config["time_step_limit"],
    }
    renamed = {n.replace("embeddings", "embedding"): x for n, x in tensors.items()}
    values = {
        "d_model": config["hidden_size"],
        "n_layer": config["num_hidden_layers"],
        "vocab_size": config["vocab_size"],
        "pad_vocab_size_multiple": 1,
        "ssm_cfg": ssm,
        "tie_embeddings": config["tie_word_embeddings"],
    }
    return values, renamed


@pytest.mark.parametrize("name", ["mamba2", "mamba2_groups"])
def test_both_spellings_of_mamba2_are_one_model(name):
    config, tensors = authors(*parts(name))
    ids = check(name)["ids"][:20].tolist()
    again = ps.LanguageModel.load(tensors, config)
    assert (again.logits(ids) == model(name).logits(ids)).all()


def test_a_vocabulary_is_padded_as_its_authors_do():
    config, tensors = authors(*parts())
    table = tensors["backbone.embedding.weight"]
    wide = np.zeros((-(-len(table) // 16) * 16, table.shape[1]), dtype=np.float32)
    wide[: len(table)] = table
    padded = {**tensors, "backbone.embedding.weight": wide}
    found = ps.LanguageModel.load(padded, {**config, "pad_vocab_size_multiple": 16})
    assert found.logits([1, 2]).shape == (2, len(wide))


class Tensor:
    """What `load` asks of a tensor of torch."""

    def __init__(self, value):
        self.value = value

    def detach(self):
        return self

    cpu = detach

    def element_size(self):
        return self.value.itemsize

    def float(self):
        return self.value.astype(np.float32)


def test_a_state_dict():
    config, tensors = parts()
    again = ps.LanguageModel.load({n: Tensor(x) for n, x in tensors.items()}, config)
    assert (again.logits([3, 4, 5]) == model().logits([3, 4, 5])).all()
    with pytest.raises(ModelError, match="needs its configuration"):
        ps.LanguageModel.load(tensors)


def test_a_norm_of_groups():
    rng = np.random.default_rng(1)
    x, weight = rng.normal(size=(3, 12)), rng.normal(size=12)
    parts = [x[:, n : n + 4] for n in (0, 4, 8)]
    wanted = np.hstack([p / np.sqrt((p**2).mean(axis=1) + 0.1)[:, None] for p in parts]) * weight
    np.testing.assert_allclose(Norm(weight, 0.1, 3)(x), wanted, rtol=1e-14)


@pytest.mark.parametrize("ids", [120, pytest.param(2001, marks=pytest.mark.long)])
@pytest.mark.parametrize(("format", "most"), [("float16", 1e-3), ("mx8", 1e-2)])
def test_perplexity_of_text_that_was_held_back(format, most, ids):
    found = model(target="u55c", format=format).perplexity(check()["held"][:ids].tolist())
    assert found.ids == ids and 1.5 < found.float64 < 12
    assert abs(found.value - found.float64) <= most * found.float64, found
    assert found.errors["within_bound"] and not found.errors["collapsed"]


def test_perplexity_is_that_of_the_logits():
    ids = check()["held"][:60].tolist()
    logits = model().logits(ids[:-1])
    chosen = [x[n] - np.log(np.exp(x).sum()) for x, n in zip(logits, ids[1:], strict=True)]
    found = model(target="u55c", format="float16").perplexity(ids)
    assert np.isclose(found.float64, np.exp(-np.mean(chosen)), rtol=1e-12)
    assert float(found) == found.value


# -- text


@pytest.mark.parametrize(
    ("tokens", "backend"),
    [(3, "model"), *(pytest.param(50, b, marks=pytest.mark.long) for b in ("model", "rtl"))],
)
@pytest.mark.parametrize("format", ["float16", "mx8"])
def test_text_on_a_device_is_goldens(format, tokens, backend):
    served = model(target="small", format=format)
    golden, device = (
        served.generate("In the beginning", tokens=tokens, seed=3, backend=b)
        for b in ("golden", backend)
    )
    assert golden.ids == device.ids and len(golden.ids) == tokens
    assert golden.cycles is None and device.cycles > 0
    assert golden.text == str(golden) == served.text(golden.ids)
    assert served.ids(golden.text) == golden.ids
    if backend == "rtl":
        assert (
            device.cycles
            == served.generate("In the beginning", tokens=tokens, seed=3, backend="model").cycles
        )


def test_a_text_is_told_beside_float64():
    """The likeliest ids; one error is of logits, one counts ids."""
    served = model(target="u55c", format="float16")
    found = served.generate("And it came to pass", tokens=12, temperature=0)
    ids, made = served.ids("And it came to pass"), []
    for _ in range(12):
        made.append(int(served.logits([*ids, *made])[-1].argmax()))
    assert found.ids == made and found.other == 0 and 0 < found.logits < 1e-2
    assert found.errors["within_bound"]
    assert (
        served.generate("And", tokens=8, seed=1).ids != served.generate("And", tokens=8, seed=2).ids
    )


def test_an_end_of_text():
    config, tensors = parts()
    ids = model().generate("And it", tokens=6, temperature=0).ids
    ended = ps.LanguageModel.load(tensors, {**config, "eos_token_id": [ids[2], 10**6]})
    found = ended.generate(model().ids("And it"), tokens=6, temperature=0)
    assert found.ids == ids[: ids.index(ids[2]) + 1] and found.text is None
    assert str(found) == " ".join(map(str, found.ids))


# -- requests


@pytest.mark.parametrize("name", ["mamba2", "gla"])
def test_requests_get_what_they_get_alone(name):
    """They join and leave at random, and step together, some of them, or with ids of the caller's."""
    served, random = model(name, target="u55c", format="mx8"), Random(name)
    vocabulary = len(check(name)["logits"][0])
    prompts = [
        [random.randrange(vocabulary) for _ in range(random.randint(1, 4))] for _ in range(4)
    ]
    alone = [served.generate(p, tokens=4, seed=n).ids for n, p in enumerate(prompts)]
    live, done = {}, 0
    with served.open(requests=3) as serving:
        waiting = list(enumerate(prompts))
        while waiting or live:
            while waiting and serving.free and random.random() < 0.7:
                number, prompt = waiting.pop()
                live[serving.join(prompt, seed=number)] = (number, [])
            some = [who for who in live if random.random() < 0.7]
            for who, id in serving.step(some).items():
                number, ids = live[who]
                ids.append(id)
                if len(ids) == 4:
                    assert ids == alone[number]
                    serving.leave(who)
                    del live[who]
                    done += 1
        assert done == 4 and not serving.requests and serving.errors["within_bound"]


def test_ids_of_the_callers_take_the_place_of_those_that_were_drawn():
    served = model(target="u55c", format="float16")
    with served.open(requests=2) as serving:
        a, b = serving.join([5, 6], seed=1), serving.join([5, 6, 7], seed=1)
        first = serving.take({a: [5, 6, 7]})[a]
        assert serving.step().keys() == {a, b}
        assert (serving.take({a: [1]})[a] == serving.take({b: [1]})[b]).all()
        assert np.abs(first - served.logits([5, 6, 7])).max() < 0.05 * np.abs(first).max()
        assert serving.take({}) == {} and serving.step([]) == {}


# -- refusals


def refused(code, *words, call):
    with pytest.raises((ModelError, OptionError, SessionError, SourceError)) as caught:
        call()
    assert caught.value.code == code and caught.value.hint
    said = f"{caught.value}; {caught.value.hint}"
    assert all(word in said for word in words), said
    return caught.value


@pytest.mark.parametrize("name", ["mamba2", "mamba2_groups", "gla"])
def test_each_tensor_is_held_against_its_layer(name):
    config, tensors = parts(name)

    def load(changed):
        return lambda: ps.LanguageModel.load(changed, config)

    for tensor, value in tensors.items():
        rest = {n: x for n, x in tensors.items() if n != tensor}
        bad = value.copy()
        bad.flat[-1] = np.nan
        refused("E468", f"no tensor {tensor}", call=load(rest))
        refused(
            "E468",
            f"no tensor {tensor}",
            f"did you mean {tensor}s?",
            call=load({**rest, f"{tensor}s": value}),
        )
        refused("E468", f"tensor {tensor}", "is nan at", call=load({**rest, tensor: bad}))
        refused(
            "E468", f"tensor {tensor}", "has the shape", call=load({**rest, tensor: value[:-1]})
        )
        if value.ndim > 1 and value.shape != value.T.shape:
            refused(
                "E468", f"tensor {tensor}", "it is transposed", call=load({**rest, tensor: value.T})
            )
        refused(
            "E468", f"unknown tensor {tensor}.more", call=load({**tensors, f"{tensor}.more": value})
        )
    refused(
        "E468", "holds int64", call=load({**tensors, tensor: np.ones(value.shape, dtype=np.int64)})
    )


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("mamba2", {"model_type": "llama"}, ("model_type is 'llama'", "mamba2, retnet, gla")),
        ("mamba2", {"use_bias": True}, ("use_bias is True", "models with False")),
        ("mamba2", {"hidden_act": "gelu"}, ("hidden_act is 'gelu'", "'silu' or 'swish'")),
        ("mamba2", {"num_heads": 2.5}, ("num_heads is 2.5", "a whole number")),
        ("mamba2", {"num_heads": True}, ("num_heads is True",)),
        ("mamba2", {"n_groups": 3}, ("n_groups is 3", "divides num_heads, which is 4")),
        ("mamba2", {"layer_norm_epsilon": "x"}, ("layer_norm_epsilon is 'x'", "a finite number")),
        ("mamba2", {"time_step_limit": 1}, ("time_step_limit is 1", "two numbers")),
        ("mamba2", {"num_hidden_layers": 3}, ("no tensor backbone.layers.2",)),
        ("mamba2", {"num_hidden_layers": 1}, ("unknown tensor backbone.layers.1",)),
        ("mamba2", {"hidden_size": 10**9}, ("has the shape", "1000000000")),
        ("gla", {"attn": {"layers": [0]}}, ("attn is", "models with None")),
        ("gla", {"use_short_conv": True}, ("use_short_conv is True",)),
        ("gla", {"expand_k": 0.55}, ("hidden_size · expand_k",)),
        ("gla", {"clamp_min": "x"}, ("clamp_min is 'x'",)),
    ],
)  # fmt: skip
def test_choices_that_no_layer_knows(name, change, words):
    config, tensors = parts(name)
    refused("E468", *words, call=lambda: ps.LanguageModel.load(tensors, {**config, **change}))


def test_choices_of_the_authors():
    config, tensors = authors(*parts())
    for change, word in (
        ({"attn_layer_idx": [1]}, "attn_layer_idx"),
        ({"rms_norm": False}, "rms_norm"),
    ):
        refused("E468", word, call=lambda c=change: ps.LanguageModel.load(tensors, {**config, **c}))
    for change, word in (
        ({"layer": "Mamba1"}, "Mamba1"),
        ({"D_has_hdim": True}, "D_has_hdim"),
        ({"headdim": 33}, "headdim"),
    ):
        ssm = {**config["ssm_cfg"], **change}
        refused(
            "E468",
            word,
            call=lambda s=ssm: ps.LanguageModel.load(tensors, {**config, "ssm_cfg": s}),
        )


def test_tied_weights_that_differ():
    config, tensors = parts()
    head = {"lm_head.weight": tensors["backbone.embeddings.weight"].copy()}
    assert ps.LanguageModel.load({**tensors, **head}, config)
    head["lm_head.weight"][3, 4] += 1
    refused(
        "E468",
        "lm_head.weight",
        "tied",
        call=lambda: ps.LanguageModel.load({**tensors, **head}, config),
    )


def test_folders(tmp_path):
    load = lambda: ps.LanguageModel.load(tmp_path)
    refused("E468", "there is no file", "config.json", call=load)
    (tmp_path / "config.json").write_text("[1")
    refused("E468", "config.json is not a configuration: line 1", call=load)
    (tmp_path / "config.json").write_text("[1]")
    refused("E468", "no JSON object", call=load)
    shutil.copy(FOLDER / "mamba2" / "config.json", tmp_path)
    refused("E468", "no file *.safetensors", "torch.load", call=load)
    whole = (FOLDER / "mamba2" / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-1])
    refused("E468", "model.safetensors is not a file of safetensors", call=load)
    (tmp_path / "model.safetensors").write_bytes(whole)
    save_file({"a": np.zeros(2, dtype=np.int8)}, tmp_path / "more.safetensors")
    refused("E468", "a is stored as I8", call=load)
    save_file(parts()[1], tmp_path / "more.safetensors")
    refused("E468", "is in another file too", call=load)
    (tmp_path / "more.safetensors").unlink()
    (tmp_path / "tokenizer.json").write_text("{}")
    refused("E468", "tokenizer.json is not a tokenizer", call=load)
    (tmp_path / "tokenizer.json").unlink()
    again = load()
    assert (again.logits([1, 2]) == model().logits([1, 2])).all()
    refused("E469", "no tokenizer", call=lambda: again.generate("In"))
    assert again.text([1, 2]) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "float32"}, "mx8 or float16"),
        ({"bank": 2}, "takes no bank"),
        ({"heads": 2}, "takes no heads: its configuration says it"),
        ({"target": "nowhere"}, "nowhere"),
    ],
)
def test_options_are_looked_at_when_a_model_is_loaded(options, words):
    with pytest.raises(ps.Error, match=words):
        ps.LanguageModel.load(FOLDER / "mamba2", **options)


def test_what_a_model_does_not_take():
    served = model()
    for call, code, *words in (
        (lambda: served.generate([1, 10**6]), "E469", "1000000 is no id"),
        (lambda: served.generate([True]), "E469", "True is no id"),
        (lambda: served.generate([1.5]), "E469", "1.5 is no id"),
        (lambda: served.generate([]), "E469", "no ids"),
        (lambda: served.generate(""), "E469", "no ids"),
        (lambda: served.generate("\u20ac"), "E469", "the text is not one that the tokenizer takes"),
        (lambda: served.generate("a", tokens=0), "E469", "tokens is 0"),
        (lambda: served.generate("a", temperature=-1), "E469", "temperature is -1"),
        (lambda: served.perplexity("a"), "E469", "two ids"),
        (lambda: served.generate(3), "E469", "3 are no ids"),
        (lambda: served.generate("a", seed="x"), "E609", "a whole number"),
        (lambda: served.open(requests=[1]), "E469", "requests is"),
        (lambda: ps.LanguageModel.load(3), "E468", "3 is no model"),
        (lambda: ps.LanguageModel.load({}, "abc"), "E468", "the configuration is 'abc'"),
        (lambda: ps.LanguageModel.load({}, {"model_type": ["gla"]}), "E468", "model_type is"),
    ):  # fmt: skip
        refused(code, *words, call=call)
    with served.open() as serving:
        own = serving.join([1, 2])
        refused("E466", "no seat is free", call=lambda: serving.join([1]))
        refused("E466", "names no request", call=lambda: serving.step(["x"]))
        refused("E469", "1000000", call=lambda: serving.take({own: [10**6]}))
        refused("E469", "not 3", call=lambda: serving.step(3))
        refused("E469", "not None", call=lambda: serving.take(None))
        assert len(serving.step()) == 1
        serving.leave(own)
        refused("E466", "it left", call=lambda: serving.step([own]))


def test_a_step_that_fails_ends_its_requests():
    """float16 ends at 65,504: a value beyond it stops the layer, and the other request goes on."""
    config, tensors = parts()
    big = tensors["backbone.layers.1.mixer.conv1d.bias"].copy()
    big[0] = 1e7
    changed = {**tensors, "backbone.layers.1.mixer.conv1d.bias": big}
    served = ps.LanguageModel.load(changed, config, format="float16")
    with served.open(requests=2) as serving:
        own, other = serving.join([1, 2]), serving.join([1, 2])
        refused("E841", "65504", call=lambda: serving.step([own]))
        assert serving.requests == (other,) and serving.free == 1
    with served.open(on_overflow="saturate") as serving:
        serving.join([1, 2])
        assert len(serving.step()) == 1 and serving.session.counters["saturated_inputs"]


def test_the_example_runs(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    assert importlib.import_module("language").main(FOLDER / "mamba2", tokens=3)
