"""What config.json may say: sizes within what there are tensors for, truth values, ids at which texts end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.engines.pim.models.readers import reader_of
from penstock.engines.pim.models.weights import Config, ModelError, Weights, opened

_CHECKPOINTS = Path(__file__).parent / "checkpoints"


@pytest.mark.parametrize(
    ("family", "name", "value", "what"),
    [
        ("mamba2", "num_hidden_layers", 10**9, "num_hidden_layers is 1000000000"),
        ("retnet", "num_hidden_layers", 10**18, "num_hidden_layers is 10+"),
        ("mamba2", "tie_word_embeddings", "false", "tie_word_embeddings is 'false'"),
        ("gla", "fuse_norm", 1, "fuse_norm is 1"),
        ("mamba2", "layer_norm_epsilon", -1.0, "layer_norm_epsilon is -1.0"),
    ],
)
def test_values_that_no_model_has(family: str, name: str, value: Any, what: str) -> None:
    config, tensors = opened(_CHECKPOINTS / family)
    config[name] = value
    with pytest.raises(ModelError, match=f"^m: {what}$"):
        reader_of(config, "m")(config, Weights(tensors, "m", np.float32))


def test_ids_at_which_texts_end() -> None:
    read = lambda value: Config({"eos_token_id": value}, "m", {}).ids("eos_token_id")
    assert (read(None), read(2), read([2, 7]), read([])) == ([], [2], [2, 7], [])
    for wrong in ("2", True, 1.0, [2, "7"], -1, [[2]]):
        with pytest.raises(ModelError, match=r"^m: eos_token_id is ") as refused:
            read(wrong)
        assert refused.value.hint == "it is an id, or a list of ids"
