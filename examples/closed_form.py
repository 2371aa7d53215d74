"""Linear regression in closed form, which goes on as rows come and go: exact integer sums over products of columns, then one small solve.

Data: any table with numeric columns; for examples/data/diabetes, whose features lie within 0.2 of 0, `--format fixed:5,12` keeps their digits.
examples/linear.py learns the same by gradient descent.
"""

import penstock as ps


@ps.fit
def closed_form(x: ps.Input["d"], y: ps.Output):
    return ps.least_squares(x, target=y)
