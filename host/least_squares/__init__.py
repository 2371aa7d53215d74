"""Least squares over a table's own values: exact sums solved in integers, refined on the rows where the sums hold no more than
rounded values, with a stated error and the usual statistics. It knows nothing of what computed the sums."""

from .fit import Fit, Options, fit
from .rows import Rows, rooted
from .sums import Dependent, Sums

__all__ = ["Dependent", "Fit", "Options", "Rows", "Sums", "fit", "rooted"]
