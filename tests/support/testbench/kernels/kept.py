"""Cases that once differed, as hypothesis shrank and printed them: each run goes through them first."""

from .drawn import Case

__all__ = ["KEPT"]

KEPT: tuple[Case, ...] = ()
