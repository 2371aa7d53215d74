"""models/qr/config: which configurations there is hardware for."""

from __future__ import annotations

import pytest

from penstock.models.qr.config import FitPlan
from penstock.models.qr.job import Label, Method


def config(n_max: int, bus_bytes: int, gram_lanes: int, **more) -> FitPlan:
    return FitPlan(
        n_max=n_max,
        bus_bytes=bus_bytes,
        gram_lanes=gram_lanes,
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


@pytest.mark.parametrize(("gram_lanes", "built"), [(11, False), (12, True), (15, True)])
def test_lanes_of_sums_and_squares(gram_lanes: int, built: bool) -> None:
    assert config(6, 32, gram_lanes, method=Method.GIVENS).built is built


def test_what_is_around_every_engine_has_one_figure() -> None:
    from penstock.models import resources
    from penstock.models.qr.resources import DEVICE

    assert DEVICE.lut == resources.DEVICE
