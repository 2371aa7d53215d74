"""A language model from a folder of weights (config.json, *.safetensors, tokenizer.json): text, and two requests that share a device.

`python examples/language.py FOLDER`; without one, a small Mamba-2 that has read the King James Bible, from the tests.
"""

import sys
from pathlib import Path

import penstock as ps

SMALL = Path(__file__).parents[1] / "tests" / "pim" / "checkpoints" / "mamba2"


def main(folder=SMALL, tokens=60):
    model = ps.LanguageModel.load(folder, target="u55c", format="float16")
    found = model.generate("In the beginning", tokens=tokens, seed=1, backend="model")
    print(repr(found.text), "in", found.cycles, "cycles")
    print(
        "logits are",
        f"{found.logits:.2%}",
        "from float64's, which draw",
        found.other,
        "ids otherwise",
    )
    with model.open(requests=2) as serving:
        a = serving.join(model.ids("In the beginning"), seed=1)
        b = serving.join(model.ids("And it came to pass"), seed=2)
        ids = [serving.step() for _ in range(tokens)]
        serving.leave(b)
    return [step[a] for step in ids] == found.ids


if __name__ == "__main__":
    print("the same text beside another request:", main(*sys.argv[1:]))
