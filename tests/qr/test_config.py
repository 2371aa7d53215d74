"""models/qr/config: which configurations there is hardware for."""

from __future__ import annotations

import random

import pytest

from penstock.hdl.qr.normal_equations import lanes_of
from penstock.models.qr.config import FitPlan
from penstock.models.qr.job import Label, Method


def config(n_max: int, bus_bytes: int, gram_lanes: int, **more) -> FitPlan:
    return FitPlan(
        n_max=n_max,
        bus_bytes=bus_bytes,
        gram_lanes=gram_lanes,
        lanes=n_max,
        target=Label.SLOT,
        **more,
    )


@pytest.mark.parametrize(
    ("gram_lanes", "built"),
    [(6, True), (12, True), (15, False), (20, False), (21, True), (22, True)],
)
def test_lanes_of_the_triangle(gram_lanes: int, built: bool) -> None:
    """Six entries lie in a bus word of 32 bytes, 21 in the triangle of six columns."""
    assert config(6, 32, gram_lanes).built is built


def test_what_is_built_is_what_the_accumulator_takes() -> None:
    seeded = random.Random(1)
    refused = 0
    for _ in range(300):
        n_max = seeded.randint(4, 16)
        bus = seeded.choice([16, 32, 64, 128])
        chosen = config(n_max, bus, seeded.randint(1, n_max * (n_max + 1) // 2 + 3))
        if not config(n_max, bus, 2080).built:  # a row does not fit its bus word
            continue
        try:
            lanes_of(chosen)
            takes = True
        except ValueError:
            takes = False
            refused += 1
        assert chosen.built is takes, chosen
    assert refused > 50


@pytest.mark.parametrize(("gram_lanes", "built"), [(11, False), (12, True), (15, True)])
def test_lanes_of_sums_and_squares(gram_lanes: int, built: bool) -> None:
    assert config(6, 32, gram_lanes, method=Method.GIVENS).built is built


def test_what_is_around_every_engine_has_one_figure() -> None:
    from penstock.models import resources
    from penstock.models.qr.resources import DEVICE

    assert DEVICE.lut == resources.DEVICE
