"""What a cipher core is: `Opener` and `Sealer` take any of them."""

from amaranth.lib.wiring import In, Out

__all__ = ["core_members"]


def core_members():
    """The members of a core that seals or opens one message of whole blocks at a time.

    Its cycles are those of `models.omap.ciphers.Pace`, counted from the cycle of `start`.

    Members
    -------
    start, key, nonce : In
        Begin a message, while `idle`; `key` and `nonce` must stay.
    valid, block : In
        The next block, plaintext or ciphertext.
    taken : Out(1)
        It is absorbed in this cycle, and `result` is its ciphertext or plaintext.
    tag_valid, tag : Out
    tag_taken : In(1)
        In the cycle in which the tag is taken the message ends; the next one may start in the next
        cycle.
    idle : Out(1)
    """
    return {
        "start": In(1),
        "key": In(128),
        "nonce": In(128),
        "valid": In(1),
        "block": In(128),
        "taken": Out(1),
        "result": Out(128),
        "tag_valid": Out(1),
        "tag": Out(128),
        "tag_taken": In(1),
        "idle": Out(1),
    }
