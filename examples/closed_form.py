"""Linear regression in closed form, which goes on as rows come and go: exact integer sums over products of columns, then one small solve.

Data: any table with numeric columns, such as examples/data/diabetes. The range of the values chooses the number format.
examples/linear.py learns the same by gradient descent.
"""

import penstock as ps


@ps.fit
def closed_form(x: ps.Input["d"], y: ps.Output):
    return ps.least_squares(x, target=y)
