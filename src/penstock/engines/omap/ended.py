"""How commands that wait for others end."""

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from penstock.models.inputs import Input


def refused(message: str, hint: str) -> Exception:
    from penstock.errors import Conflict

    return Conflict(message, hint)


#: certificates and private keys: what has them is looked at before OpenSSL, which would wait for a pipe's writer, opens it
PEM = Input("a PEM file", "certificates and private keys are PEM files", refused, 1 << 20)


def run_ended(work: Coroutine[Any, Any, None]) -> None:
    """Run an event loop. SIGTERM ends its work between two steps, as asyncio has Ctrl-C do: raised in the midst of a task it would be that task's."""
    import asyncio
    import signal

    from penstock.hooks import Terminated

    async def watched() -> bool:
        task, ended = asyncio.ensure_future(work), []

        def end() -> None:
            ended.append(task.cancel())

        with suppress(NotImplementedError, RuntimeError):  # another system, or not the main thread
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
        try:
            await task
        except asyncio.CancelledError:
            if not ended:
                raise
        return bool(ended)

    if asyncio.run(watched()):
        raise Terminated


def check_named(**names: str | None) -> None:
    """Refuse options whose values are empty, as a shell's unset variable is."""
    for option, name in names.items():
        if name is not None and not name.strip():
            raise refused(f"--{option} has an empty name", "is a variable unset?")
