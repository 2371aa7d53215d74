"""What passes a part arrives as it was: channels and their fields by signature, so that a new field is
looked at too.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Signal, Value
from amaranth.lib.wiring import In

from .bench import Bench

__all__ = ["Channel", "channels", "follow", "given", "passes"]


class Channel:
    """One handshake of an interface: `valid`, `ready` and all that goes with them, `fields`."""

    def __init__(self, interface: Any, name: str, members: dict) -> None:
        self.name, self.flow = name, members[f"{name}valid"].flow
        part = lambda what: getattr(interface, name + what)
        self.valid, self.ready = part("valid"), part("ready")
        own = [member for member in members if member.startswith(name)]
        self.fields = {
            member.removeprefix(name): Value.cast(getattr(interface, member))
            for member in own
            if member not in (f"{name}valid", f"{name}ready")
        }
        self.payload = Cat(self.fields.values())
        self.moves = self.valid & self.ready


def channels(interface: Any, signature=None) -> dict[str, Channel]:
    """The channels of an AXI port, or of a stream, by name; `signature` where the interface has none of
    its own. `flow` is Out where the manager gives.
    """
    signature = interface.signature if signature is None else signature
    members = dict(signature.members.items())
    names = [member.removesuffix("valid") for member in members if member.endswith("valid")]
    return {name: Channel(interface, name, members) for name in names}


def given(b: Bench, interface: Any, name: str, *, manager: bool, but=(), signature=None) -> None:
    """Drive one side of all channels with anything, without any rule: the manager's or the memory's.
    `but`: fields, such as "wlast", that somebody else gives.
    """
    for channel in channels(interface, signature).values():
        if (channel.flow is In) == manager:
            b.d.comb += channel.ready.eq(b.free(f"{name}.{channel.name}ready"))
            continue
        b.d.comb += channel.valid.eq(b.free(f"{name}.{channel.name}valid"))
        for field, value in channel.fields.items():
            if channel.name + field not in but:
                b.d.comb += value.eq(b.free(f"{name}.{channel.name}{field}", len(value)))


def passes(
    b: Bench, managers: dict[str, dict[str, Channel]], bus: dict[str, Channel], *, all_of_it=1
) -> None:
    """Check that what moves on a manager's side moves on the bus in the same cycle with equal fields, in
    both directions, one manager's at a time; while `all_of_it` is high nothing else moves there.
    """
    for channel, other in bus.items():
        moving = []
        for name, sides in managers.items():
            if channel in sides:
                one, text = sides[channel], f"{name}.{channel.upper()}"
                equal = Cat(one.fields[f] == other.fields[f] for f in other.fields).all()
                b.check(
                    f"{text}: what moves is on the bus, all its fields",
                    ~one.moves | (other.moves & equal),
                )
                b.cover(f"{text} moves", b.past(one.moves & one.payload.any()))
                moving.append(one.moves)
        b.check(
            f"{channel.upper()}: what moves on the bus is one manager's, and no other's",
            (sum(moving) == 1) | ((sum(moving) == 0) & ~(other.moves & all_of_it)),
        )


def follow(b: Bench, i, o, level, *, bits: int | None = None, at_once: bool = False) -> None:
    """Follow one item of a stream, chosen when it enters: it comes out behind those that were there
    before it, once, as it was, in all its bits or in the lowest `bits`.

    `level`: the items inside; `at_once`: an item may leave in the cycle in which it enters.
    """
    enters, leaves = (Value.cast(side.payload)[:bits] for side in (i, o))
    wanted, chosen = b.constant("the item", len(enters)), b.free("followed from here")
    followed, place = Signal(), Signal(len(level))
    push, pop, begin, passed = Signal(), Signal(), Signal(), Signal()
    b.d.comb += [
        push.eq(i.valid & i.ready),
        pop.eq(o.valid & o.ready),
        begin.eq(push & chosen & ~followed & (enters == wanted)),
        passed.eq(begin & pop & (level == 0)),
    ]
    with b.m.If(begin & ~passed):
        b.d.sync += [followed.eq(1), place.eq(level - pop)]
    with b.m.Elif(followed & pop):
        b.d.sync += [place.eq(place - 1), followed.eq(place != 0)]
    mine = (followed & (place == 0)) | (begin & (level == 0) if at_once else 0)
    b.check("the item comes out in its turn, as it was", ~mine | (o.valid & (leaves == wanted)))
    b.check("an item that is inside has its place", ~followed | (place < level))
    b.cover("an item that was followed leaves", followed & pop & (place == 0))
    b.show("items before the followed one", place)
