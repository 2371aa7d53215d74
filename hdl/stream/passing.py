"""One stream into another, as it is."""

__all__ = ["passed_on"]


def passed_on(giver, taker):
    """Assignments that give one stream's items to another; add them to the combinational domain."""
    return [
        taker.payload.eq(giver.payload),
        taker.valid.eq(giver.valid),
        giver.ready.eq(taker.ready),
    ]
