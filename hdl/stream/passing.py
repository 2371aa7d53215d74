"""One stream into another, as it is; and fields of an item, one by one."""


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
