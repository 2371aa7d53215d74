"""The failure budget against published figures and simulation."""

import random

import pytest

from penstock.models.omap.tails import shares, two_choice_tail

#: log2 of the probability that both choices of an access hold C items, as computed for the published system: mean load, then C and its value
_TABLE = {
    4: {7: -16, 8: -34, 9: -70, 10: -142, 11: -287},
    8: {12: -27, 13: -56, 14: -113, 15: -228, 16: -459},
    16: {20: -23, 21: -47, 22: -96, 23: -192, 24: -385},
    32: {36: -21, 37: -42, 38: -85, 39: -171, 40: -343},
}


@pytest.mark.parametrize("load", _TABLE)
def test_tails_of_two_choices(load):
    for slots, expected in _TABLE[load].items():
        assert two_choice_tail(load, slots) == pytest.approx(expected, abs=0.6)


def test_shares_are_those_of_the_process():
    """Items that leave and come to the less loaded of two bins, as often as the tail says."""
    draw, bins, load = random.Random(4), 1 << 12, 8
    loads, places = [load] * bins, [n % bins for n in range(bins * load)]
    count = [0] * 20
    rounds = 400_000
    for turn in range(rounds):
        item = draw.randrange(len(places))
        loads[places[item]] -= 1
        one, two = draw.randrange(bins), draw.randrange(bins)
        best = two if loads[two] < loads[one] else one
        if turn > rounds // 4:
            count[loads[best]] += 1
        loads[best] += 1
        places[item] = best
    total = sum(count)
    logs = shares(load, 12)
    for least in (8, 9, 10):
        seen = sum(count[least:]) / total
        assert seen == pytest.approx(2 ** (2 * logs[least]), rel=0.08)
