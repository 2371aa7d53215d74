"""Streams that the watchdog report can look at."""

from amaranth.lib import data


def monitor_shape(level_bits=0):
    """What is kept of one stream: `valid`, `ready` and, with `level_bits`, the level of the queue behind it."""
    return data.StructLayout(
        {"valid": 1, "ready": 1} | ({"level": level_bits} if level_bits else {})
    )


def observe(monitor, stream, level=None):
    """Assignments that show a stream on one member of an engine's `monitors`; add them to the combinational domain.

    `level` is the level of a queue, for a monitor that has one.
    """
    assignments = [monitor.valid.eq(stream.valid), monitor.ready.eq(stream.ready)]
    if level is not None:
        assignments.append(monitor.level.eq(level))
    return assignments
