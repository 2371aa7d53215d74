"""Memories with a port to write and one to read."""

from amaranth.lib.memory import Memory


def ram(m, name, shape, depth, *, attrs=None):
    """Add a memory of `depth` words to a module; return its write port and its read port, which is clocked and always enabled."""
    m.submodules[name] = memory = Memory(shape=shape, depth=depth, init=[], attrs=attrs)
    return memory.write_port(), memory.read_port()
