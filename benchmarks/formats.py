"""What a number format costs: plan, estimated resources and cycles of the same kernels in three formats."""

from __future__ import annotations

from common import Options, Section, kernel, main, markdown, schema

from penstock.api import assume, compile

FORMATS = ("float32", "bfloat16", "fixed:8,24")
EXAMPLES = {"logistic": {}, "svm": {}, "mlp": {"h": 8}}


def make(options: Options) -> str:
    rows = []
    count = 1000 if options.quick else 100_000
    for target in ("ulx3s-85f-sdram",) if options.quick else ("ulx3s-85f-sdram", "vu9p"):
        for name, dims in list(EXAMPLES.items())[: 1 if options.quick else None]:
            for number in FORMATS:
                design = compile(kernel(name), target, schema(54), number, dims=dims)
                run = design.run(assume(design.plan.schema, count), "model", epochs=1)
                assert run.bound is not None and run.cycles is not None
                found, part = design.resources, design.target
                shares = [
                    f"{getattr(found, what):,} ({getattr(found, what) / getattr(part, what):.0%})"
                    for what in ("lut", "ff", "dsp", "bram")
                ]
                rows.append(
                    f"{target}, {name} | {number} | {design.plan.threads} × {design.plan.lanes} | {' | '.join(shares)} | "
                    f"{run.cycles:,} | {run.bound.by} | {run.cycles / run.bound.cycles:.3f}"
                )
    return markdown(
        "target, example | format | threads × lanes | LUT | FF | DSP | BRAM | cycles | binds | ratio",
        rows,
    )


SECTIONS = [Section("formats", False, make)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
