"""The command `penstock`, and `python -m penstock`: little is imported before Ctrl-C is seen to."""

from __future__ import annotations

import os
import signal

__all__ = ["main"]


def _leave(*_: object) -> None:
    """End at once: while modules are loaded, and after the command, nothing is to be put right."""
    os.write(2, b"\ninterrupted\n")
    os._exit(130)


def main() -> None:
    """The program `penstock`."""
    # a shell starts what runs in the background with SIGINT ignored
    catch = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if catch:
            signal.signal(signal.SIGINT, _leave)
        from penstock.cli import main as command

        try:
            if catch:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            command()
        finally:
            if catch:
                signal.signal(signal.SIGINT, _leave)
    except KeyboardInterrupt:
        _leave()


if __name__ == "__main__":
    main()
