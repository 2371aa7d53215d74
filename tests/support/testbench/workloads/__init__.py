"""Workloads for indexes: YCSB A to F, Twitter's cache clusters, and sets of keys. Seeded, and made as they are used.

```
for operation in Ycsb("D", records=1_000_000, operations=10_000_000, seed=1): ...
for operation in Twitter(37, operations=1_000_000): ...
for key in url_keys(1_000_000): ...
```
"""

from .keys import KEY_SETS, amazon_keys, random_keys, url_keys
from .operations import Block, Kind, Operation
from .twitter import CLUSTERS, Cluster, Twitter
from .ycsb import CORE, Mix, Ycsb, key_names

__all__ = [
    "CLUSTERS",
    "CORE",
    "KEY_SETS",
    "Block",
    "Cluster",
    "Kind",
    "Mix",
    "Operation",
    "Twitter",
    "Ycsb",
    "amazon_keys",
    "key_names",
    "random_keys",
    "url_keys",
]
