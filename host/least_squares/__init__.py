"""Least squares over a table's own values: exact sums solved in integers, refined on the rows where the sums hold no more than
rounded values, with a stated error and the usual statistics. It knows nothing of what computed the sums.

* *All columns exact*: solved in integers (FLINT), each weight rounded once.
* *Else* refined on the table's rows, r = (y − ȳ) − (X − x̄) w, w += R⁻¹R⁻ᵀ(X − x̄)ᵀ r, until a step changes nothing, ten at most. R comes from the
  exact sums in 320 bits; where these do not resolve the columns, from a QR factorisation of the rows, and the result says `"preconditioner": "host"`.
  Only the last fit of a run is refined. `--refine never` leaves the sums' own solution.
* *Weighted rows* are summed as √w (x − c), c near the column's mean, with √w as a column beside the 1. The products with √w are rounded: weights are
  always refined on the user's own rows. The engine's own float32 weights are those of the packed columns, and not reported.
* *The stated error* of each weight, times its column's spread: the last step, and 4 ε max(d, √n) (κ ‖ω‖ + κ² ‖r‖), ω being the scaled weights, κ the
  condition number of the scaled columns; and half a unit in the last place.
* *Dependent columns* are found exactly, or where less than n · 2⁻⁵² of a column's spread is left beside those before it. They are E844 with its
  factors, or what `--on-singular` says: `drop`, or `minimum-norm`.
"""

from .fit import Fit, Options, fit
from .row_blocks import Rows, rooted
from .sums import Dependent, Sums

__all__ = ["Dependent", "Fit", "Options", "Rows", "Sums", "fit", "rooted"]
