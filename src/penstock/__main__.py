"""The command `penstock`, and `python -m penstock`: little is imported before Ctrl-C is seen to."""

import gc
import os
import signal


def _leave(*_: object) -> None:
    """End at once: while modules are loaded, and after the command, nothing is to be put right."""
    os.write(2, b"\ninterrupted\n")
    os._exit(130)


def _terminate(*_: object) -> None:
    from penstock.hooks import Terminated

    raise Terminated


def main() -> None:
    """The program `penstock`."""
    usual = signal.getsignal(signal.SIGINT)
    # a shell starts what runs in the background with SIGINT ignored
    early = _leave if usual is signal.default_int_handler else usual
    try:
        signal.signal(signal.SIGINT, early)
        gc.disable()  # what modules make stays
        from penstock.cli.main import main as command

        gc.freeze()
        gc.enable()
        try:
            signal.signal(signal.SIGINT, usual)
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, _terminate)
            command()
        finally:
            signal.signal(signal.SIGINT, early)
            if signal.getsignal(signal.SIGTERM) is _terminate:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except KeyboardInterrupt:
        _leave()


if __name__ == "__main__":
    main()
