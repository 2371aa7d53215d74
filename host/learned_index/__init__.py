"""An ordered map over byte strings that finds keys by fitted models; see docs/reference/learned_index.md.

```
index = LearnedIndex((key, value) for ...)
index[b"key"] = 1; index.get(b"key"); del index[b"key"]
list(index.irange(b"a", b"b")); index.get_many(keys); index.save("index.pst"); LearnedIndex.load("index.pst")
```
"""

from .index import LearnedIndex
from .layout import Layout, Statistics
from .snapshot import SnapshotError
from .trainer import Backend, Trainer, TrainingError, golden

__all__ = [
    "Backend",
    "Layout",
    "LearnedIndex",
    "SnapshotError",
    "Statistics",
    "Trainer",
    "TrainingError",
    "golden",
]
