"""What a memory of a session in Verilator does wrong: errors on its buses, and windows that are taken back."""

from __future__ import annotations

from penstock.sim.native.session import Session

__all__ = ["fail_read", "fail_write", "unmap"]


def fail_read(session: Session, port: int, beat: int) -> None:
    """Answer the `beat`-th next read beat of a port (1: the next) with SLVERR; 0 takes it back."""
    session._api.penstock_fail(session._handle, port, 0, beat)


def fail_write(session: Session, port: int, burst: int) -> None:
    """Answer the `burst`-th next write burst of a port with SLVERR."""
    session._api.penstock_fail(session._handle, port, 1, burst)


def unmap(session: Session, base: int, space: int = 0) -> None:
    """Take back a window."""
    del session._windows[base, space]
    session._api.penstock_unmap(session._handle, base, space)
