"""Workloads for indexes: YCSB A to F, Twitter's cache clusters and traces, and sets of keys. Seeded, and made as they are used.

```
for operation in Ycsb("D", records=1_000_000, operations=10_000_000, seed=1): ...
for operation in Twitter(37, operations=1_000_000): ...
for operation in read_operations("cluster12.zst"): ...
for key in url_keys(1_000_000): ...
```
"""

from .keys import KEY_SETS, amazon_keys, random_keys, url_keys
from .operations import Block, Kind, Operation
from .twitter import CLUSTERS, Cluster, Request, TraceError, Twitter, read_operations, read_trace
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
    "Request",
    "TraceError",
    "Twitter",
    "Ycsb",
    "amazon_keys",
    "key_names",
    "random_keys",
    "read_operations",
    "read_trace",
    "url_keys",
]
