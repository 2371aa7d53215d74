"""What all ciphers that seal and open messages have in common: their ports."""

from amaranth.lib.wiring import In, Out


def aead_members(*, key, nonce):
    """The members of a core that seals or opens one message at a time, block by block of 16 bytes.
    First bytes lowest.

    * `key`, `nonce`: their bits.
    """
    return {
        # begin a message, while `idle`; `key` and `nonce` must stay until the tag is taken
        "start": In(1),
        "key": In(key),
        "nonce": In(nonce),
        "valid": In(1),  # the next block is there
        "block": In(128),  # plaintext or ciphertext
        "taken": Out(1),  # the block is absorbed in this cycle
        "result": Out(128),  # its ciphertext or plaintext
        "tag_valid": Out(1),
        "tag": Out(128),
        # in the cycle in which the tag is taken the message ends; the next one may start in the
        # next cycle
        "tag_taken": In(1),
        "idle": Out(1),
    }
