"""The random bits of stochastic rounding: a linear feedback shift register, as hardware has it.

The stream of bits is s[n] = s[n − 127] ⊕ s[n − 64], of the primitive trinomial x¹²⁷ + x⁶³ + 1 (its degree is
the exponent of a Mersenne prime, so that an irreducible trinomial is primitive; Zierler, "Primitive
trinomials whose degree is a Mersenne exponent", 1969). Words of 64 bits, the first bit lowest, follow

    w[t] = w[t − 1] ⊕ (w[t − 2] >> 1) ⊕ (w[t − 1] << 63),

so that a register of two words gives 64 new bits with 64 gates. The square of a linear recurrence over
GF(2) holds as well (Frobenius): 64 squarings' worth of it, w[t] = w[t − 127] ⊕ w[t − 64], makes long
streams 64 words at a time.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def seed_words(*numbers: ArrayLike) -> NDArray[np.uint64]:
    """Return the two words (…, 2) that a stream starts from: a hash of whole numbers, or of arrays that broadcast."""
    step, state = np.uint64(0x9E3779B97F4A7C15), np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for number in numbers:
            state = _mixed((state ^ np.asarray(number).astype(np.uint64)) + step)
        words = np.stack([_mixed(state + step), _mixed(state + step + step)], axis=-1)
    words[..., 0] |= np.uint64(2)  # one bit that is set, among those that the recurrence reads
    return words


class Lfsr:
    """Streams side by side, one for each pair of words in `seeds` (an array of uint64 (streams, 2))."""

    def __init__(self, seeds: ArrayLike) -> None:
        words = np.array(seeds, dtype=np.uint64)
        if words.ndim != 2 or words.shape[1] != 2:
            raise ValueError(f"seeds are two words a stream, not an array {words.shape}")
        self._ahead = words.T.copy()  # words that were made and not given out, behind two that were
        self._given = 2

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words of each stream, (count, streams)."""
        while len(self._ahead) - self._given < count:
            self._extend()
        taken = self._ahead[self._given : self._given + count]
        self._given += count
        if self._given > 8192:  # keep what the recurrence reads, and the two words before the next
            keep = min(self._given - 2, len(self._ahead) - 127)
            self._ahead = self._ahead[keep:]
            self._given -= keep
        return taken

    def _extend(self) -> None:
        w = self._ahead
        if len(w) < 128:
            # x^127 + x^63 + 1 to the power of 2^j: as many words at once from twice as many before them, shifted by as many bits
            many = 1 << (len(w).bit_length() - 2)
            old = w[len(w) - 2 * many :]
            left, right = np.uint64(64 - many), np.uint64(many)
            new = old[many:] ^ (old[:many] >> right) ^ (old[1 : many + 1] << left)
            self._ahead = np.concatenate([w, new])
            return
        # 64 words need the 127 before them; grow by half of what is there for amortised cost
        blocks = [w]
        tail = w[-127:]
        for _ in range(max(1, min(32, len(w) // 128))):
            new = tail[0:64] ^ tail[63:127]
            blocks.append(new)
            tail = np.concatenate([tail[64:], new])
        self._ahead = np.concatenate(blocks)

    def bytes(self, count: int) -> NDArray[np.uint8]:
        """Return the next `count` bytes of each stream, (streams, count); whole words are used up."""
        words = self.words(-(-count // 8)).T
        return np.ascontiguousarray(words).astype("<u8").view(np.uint8)[:, :count]
