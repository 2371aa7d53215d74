"""The map with the host's memory: damage is seen, nothing is readable."""

import random
from copy import deepcopy

import pytest

from penstock.models.omap.device import Device, Stopped
from penstock.models.omap.errors import MapError
from penstock.models.omap.messages import Operation, Request
from testbench.omap import KEYS, Mirror, config, requests


def _filled(seed, count=60, **changes):
    shape = config(**changes)
    device, mirror = Device(shape, KEYS), Mirror(shape)
    for request in requests(shape, count, seed=seed):
        assert device.step(request).response == mirror.step(request)
    return device, mirror


def _damage(draw, device, old, kind):
    """Change one page that was written; return its number, None where nothing has changed."""
    size = device.config.page_bytes
    text = device.config.page_blocks * 16 + 16 * device.config.chunks
    written = [p for p in range(device.config.host_bins) if device.map.page(p)[0]]
    page = draw.choice(written)
    at = page * size
    before = bytes(device.pages[at : at + size])
    if kind == "flipped":
        device.pages[at + draw.randrange(text)] ^= 1 << draw.randrange(8)
    elif kind == "swapped":
        other = draw.choice(written) * size
        device.pages[at : at + size] = device.pages[other : other + size]
    elif kind == "replayed":
        device.pages[at : at + size] = old[at : at + size]
    else:
        cut = draw.randrange(text)
        device.pages[at + cut : at + size] = bytes(size - cut)
    return None if bytes(device.pages[at : at + size]) == before else page


def _faults(count, seed, each=1):
    """Damage pages of `count` devices, `each` times from the same state on; return how often a page had changed, which was always seen."""
    draw = random.Random(seed)
    caught = 0
    for number in range(count):
        chunks = draw.choice([1, 4])
        small = {"capacity": 12, "bins": 6, "hbm_bins": 2, "slots": 8, "chunks": chunks}
        filled, _ = _filled(draw.randrange(1 << 30), 8, **small)
        old = bytes(filled.pages)
        for request in requests(filled.config, 4, seed=number):
            filled.step(request)
        for n in range(each):
            kind = ("flipped", "swapped", "replayed", "truncated")[(number + n) % 4]
            caught += _seen(draw, deepcopy(filled), old, kind)
    return caught


def _seen(draw, device, old, kind):
    page = _damage(draw, device, old, kind)
    if page is None:
        return False
    for _ in range(200):
        opened = device.map
        request = Request(Operation.GET, draw.randrange(1 << 32), bytes(8))
        counter = opened.page(page)[0]
        try:
            device.step(request)
        except Stopped as problem:
            assert problem.code is MapError.PAGE_TAG
            break
        # as long as it answers, the damaged page was not opened
        assert opened.page(page)[0] == counter
    else:
        pytest.fail("the page was never opened")
    with pytest.raises(Stopped) as after:
        device.step(request)
    assert after.value.code is MapError.STOPPED
    return True


def test_damaged_pages_are_seen_before_any_response():
    assert _faults(80, 1) >= 48


@pytest.mark.long
def test_ten_thousand_faults():
    assert _faults(700, 2, each=16) >= 10_000


def test_no_plaintext_lies_in_the_hosts_memory():
    shape = config(value_bytes=64)
    device = Device(shape, KEYS)
    marks = [bytes([n]) * 6 for n in range(0xC0, 0xE0)]
    traffic = b""
    for mark in marks:
        key = int.from_bytes(mark, "big")
        device.step(Request(Operation.PUT, key, mark * 10 + bytes(4)))
        traffic += bytes(device.pages)
    assert not any(mark in traffic for mark in marks)
