"""Refits as workloads: groups of keys, from random ones or given ones, that change from round to round. Seeded.

```
for step in Refits.random(rows=8000, columns=33, changes=Changes()).play(config): ...     # jobs of the qr engine
```
"""

from .refits import Changes, Refits, Round, TooFew

__all__ = ["Changes", "Refits", "Round", "TooFew"]
