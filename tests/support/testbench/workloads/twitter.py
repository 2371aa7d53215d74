"""Twitter's cache workloads: stand-ins with the shapes of four clusters.

Source: twitter/cache-trace on GitHub (README and `stat/2020Mar.md`; CC-BY 4.0; Yang, Yue and Rashmi, OSDI 2020). The clusters are the four that
its README names as heavy in writes, and that SIA was measured with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .keys import BASE62
from .operations import Block, Kind, Operation, one_by_one

__all__ = ["CLUSTERS", "Cluster", "Twitter"]

_BLOCK = 1 << 13


@dataclass(frozen=True)
class Cluster:
    """Published figures of one cluster.

    Args:
        key, value: mean sizes in bytes.
        sets: share of `set` among operations; the others are `get`.
        frequency: mean number of requests for a key.
        one_hit: share of keys that are requested once.
        alpha: exponent of the Zipf distribution of popularity.
        ttl: time to live in seconds.
    """

    key: int
    value: int
    sets: float
    frequency: float
    one_hit: float
    alpha: float
    ttl: int


CLUSTERS: dict[int, Cluster] = {
    12: Cluster(44, 1030, 0.80, 1.3, 0.8143, 0.3048, 300),
    15: Cluster(18, 102, 1.00, 1.0, 0.9957, 0.0242, 30),
    31: Cluster(41, 15, 0.94, 1.1, 0.9406, 0.0, 60),
    37: Cluster(72, 20134, 0.37, 3.8, 0.1488, 0.4251, 20),
}


class Twitter:
    """A stand-in for one cluster: operations whose mix, key length, requests a key and one-hit share are the published ones in the limit.

    Keys are one of a few namespaces (with delimiters, as in the traces) and a random base-62 tail, all of the mean length. A request is for a new key
    with probability 1 / frequency. A new key is marked with probability 1 - one_hit: a marked key is certain to come again. A request that is not for a
    new key goes to the marked key that waits longest, once `lag` others wait, else to the keys that came again, the r-th latest of them with
    probability proportional to r ** -alpha. Where frequency (published with one decimal) leaves too few repeats for the one-hit share, the
    one-hit share holds. The window, the lag and namespaces are ours: the statistics say nothing about them.

    Args:
        cluster: 12, 15, 31 or 37, or figures of one's own.
        operations: operations of the run.
        lifetime: where given, a key is deleted so many requests after it first came (a cache's expiry; the table's times to live are in seconds, and it
            gives no rate of requests). Deletes come on top of `operations`. A deleted key may come back with a set.
        window: how many keys that came again can be drawn from.
    """

    def __init__(
        self,
        cluster: int | Cluster,
        operations: int,
        seed: int = 1,
        lifetime: int | None = None,
        namespaces: int = 4,
        window: int = 1 << 16,
        lag: int = 256,
    ) -> None:
        if isinstance(cluster, int):
            if cluster not in CLUSTERS:
                raise ValueError(
                    f"no figures for Twitter's cluster {cluster}: {', '.join(map(str, CLUSTERS))}"
                )
            cluster = CLUSTERS[cluster]
        if operations < 0 or (lifetime is not None and lifetime < 1):
            raise ValueError(
                f"operations and lifetime must be positive, not {operations} and {lifetime}"
            )
        self.cluster, self.count, self.seed, self.lifetime = cluster, operations, seed, lifetime
        self.window, self.lag = window, lag
        rng = np.random.default_rng([seed, 1])
        names = [
            b"nz:u:",
            b"tw-%d:" % rng.integers(10, 100),
            b"c/v%d/" % rng.integers(1, 10),
            b"s.",
            b"user_%d-" % rng.integers(10),
            b"e:t:",
        ]
        self.namespaces = [name for name in names if len(name) + 10 <= cluster.key][
            :namespaces
        ] or [b""]

    def blocks(self) -> Iterator[Block]:
        """Yield the operations in blocks."""
        cluster = self.cluster
        rng = np.random.default_rng(self.seed)
        marked = 1 - cluster.one_hit
        fresh = 1 / max(cluster.frequency, 1 + marked)
        # the r-th latest of m with probability ~ r ** -alpha: the integral's inverse, r = m * u ** (1 / (1 - alpha))
        power = 1 / (1 - cluster.alpha)
        waiting: deque[bytes] = deque()
        again: deque[bytes] = deque(maxlen=self.window)
        born: deque[tuple[int, bytes]] = deque()
        done = 0
        while done < self.count:
            n = min(_BLOCK, self.count - done)
            news = rng.random(n) < fresh
            marks = (rng.random(n) < marked).tolist()
            sets = rng.random(n) < cluster.sets
            pulls = (rng.random(n) ** power).tolist()
            made = self._fresh(rng, n)
            kinds, keys = [], []
            for i, (new, put) in enumerate(zip(news.tolist(), sets.tolist(), strict=True)):
                if new or not (waiting or again):
                    key = made[i]
                    if marks[i]:
                        waiting.append(key)
                    if self.lifetime is not None:
                        born.append((done + i, key))
                elif len(waiting) > self.lag or not again:
                    key = waiting.popleft()
                    again.append(key)
                else:
                    key = again[len(again) - 1 - int(pulls[i] * len(again))]
                keys.append(key)
                kinds.append(Kind.PUT if put else Kind.READ)
                while born and self.lifetime is not None and born[0][0] + self.lifetime <= done + i:
                    keys.append(born.popleft()[1])
                    kinds.append(Kind.DELETE)
            done += n
            yield Block(
                np.array(kinds, dtype=np.uint8),
                keys,
                np.zeros(len(keys), dtype=np.int64),
                cluster.value,
            )

    def __iter__(self) -> Iterator[Operation]:
        return one_by_one(self.blocks())

    def _fresh(self, rng: np.random.Generator, count: int) -> list[bytes]:
        names = rng.integers(0, len(self.namespaces), count).tolist()
        tails = BASE62[rng.integers(0, 62, (count, self.cluster.key))].tobytes()
        keys = []
        for i, name in enumerate(names):
            head = self.namespaces[name]
            keys.append(head + tails[i * self.cluster.key : (i + 1) * self.cluster.key - len(head)])
        return keys
