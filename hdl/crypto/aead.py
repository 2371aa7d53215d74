"""What all ciphers that seal and open messages have in common: their ports."""

from amaranth.lib.wiring import In, Out

__all__ = ["aead_members"]


def aead_members(*, key, nonce):
    """The members of a core that seals or opens one message at a time, block by block of 16 bytes.
    First bytes lowest.

    Parameters
    ----------
    key, nonce
        Their bits.

    Members
    -------
    start : In(1), key, nonce : In
        Begin a message, while `idle`; `key` and `nonce` must stay until the tag is taken.
    valid : In(1), block : In(128)
        The next block, plaintext or ciphertext.
    taken : Out(1), result : Out(128)
        It is absorbed in this cycle, and `result` is its ciphertext or plaintext.
    tag_valid : Out(1), tag : Out(128)
    tag_taken : In(1)
        In the cycle in which the tag is taken the message ends; the next one may start in the next
        cycle.
    idle : Out(1)
    """
    return {
        "start": In(1),
        "key": In(key),
        "nonce": In(nonce),
        "valid": In(1),
        "block": In(128),
        "taken": Out(1),
        "result": Out(128),
        "tag_valid": Out(1),
        "tag": Out(128),
        "tag_taken": In(1),
        "idle": Out(1),
    }
