"""hdl/qr/loader: rows and right sides bit for bit the golden's, at any pace."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.hdl.qr.loader import Loader
from penstock.host.workloads.groups import keys, mean_offsets
from penstock.models.qr.arith import codes, from_integer
from penstock.models.qr.golden import refit, right_side
from penstock.models.qr.job import Job, Window
from penstock.models.qr.layout import HEAD_BYTES, words
from penstock.models.qr.memo_image import pack_memo
from penstock.models.qr.normal_equations import sum_all_rows
from penstock.models.qr.schedule import MIDDLE
from testbench.pysim import drain, feed, simulate
from testbench.qr_cases import slot_plan


@pytest.mark.parametrize(("bus", "pace"), [(32, 1.0), (64, 0.6), (8, 1.0)])
def test_rows(bus, pace):
    source = np.random.default_rng(bus)
    config = slot_plan(n_max=7, gram_lanes=28, bus_bytes=bus, lanes=7, jobs=8)
    items, commands, expected = [], [], []
    for number, (n, count) in enumerate([(7, 30), (2, 5), (6, 0), (7, 1), (5, 60)]):
        rows = keys(source, count, n - 1)
        job = Job(
            number,
            Window(0, n - 1),
            mean_offsets(rows),
            rows,
            labels=np.sort(source.choice(1 << 30, count, replace=False)),
        )
        exact = sum_all_rows(job, True)
        c, middle = right_side(exact)
        gram = codes(from_integer(exact.gram))
        for row in range(n + 1):
            values = codes(c).tolist() if row == n else [int(gram[i, row]) for i in range(row + 1)]
            expected.append(
                (
                    n,
                    row,
                    int(row == n),
                    number,
                    values + [0] * (7 - len(values)),
                    int(codes(middle)) if row == n else None,
                )
            )
        data = pack_memo(refit(job, config).memo, config)
        first = words(HEAD_BYTES + n - 1, bus)
        of_c, of_gram = words(8 * n, bus), words(n * (n + 1) // 2, bus // 5)
        for k in range(of_c + of_gram):
            at = (first + k) * bus
            items.append(
                {
                    "data": int.from_bytes(data[at : at + bus], "little"),
                    "gram": k >= of_c,
                    "last": k == of_c + of_gram - 1,
                }
            )
        commands.append({"columns": n, "job": number})
    dut = Loader(config)
    accepted, taken = [], []
    simulate(
        dut,
        feed(dut.command, commands),
        feed(dut.i, items, accepted, pace=pace, seed=1),
        drain(dut.o, len(expected), taken, pace=pace, seed=2),
    )
    for (_, item), (n, row, side, job, values, h) in zip(taken, expected, strict=True):
        assert (item.columns, item.row, item.side, item.job) == (n, row, side, job)
        assert [item.values[k] for k in range(7)] == values
        assert h is None or item.h == h
    if pace == 1:
        last = [cycle for cycle, item in zip(accepted, items, strict=True) if item["last"]]
        sides = [cycle for cycle, item in taken if item.side]
        assert all(
            0 < b - a <= MIDDLE + item["columns"]
            for a, b, item in zip(last, sides, commands, strict=True)
        )
