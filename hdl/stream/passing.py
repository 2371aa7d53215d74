"""One stream into another, as it is; fields of an item, one by one; ports of two components, by name."""

from amaranth.lib.wiring import In


def passed_on(giver, taker):
    """Assignments that give one stream's items to another; add them to the combinational domain."""
    return [
        taker.payload.eq(giver.payload),
        taker.valid.eq(giver.valid),
        giver.ready.eq(taker.ready),
    ]


def fields(of, **values):
    """Assignments of these fields of a record, or of these members of an interface; add them to a domain."""
    return [getattr(of, name).eq(value) for name, value in values.items()]


def joined(one, other, names):
    """Assignments between ports of two components that are called the same, of which each is an output of one of them; add them to the combinational domain."""
    return [
        getattr(one, name).eq(getattr(other, name))
        if one.signature.members[name].flow is In
        else getattr(other, name).eq(getattr(one, name))
        for name in names
    ]
