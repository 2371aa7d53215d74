"""Ridge regression: linear regression whose weights are pulled towards zero. Stops early once the step is small.

Data: as for linear.py, `examples/data/diabetes` for example.
"""

import penstock as ps


@ps.kernel(epochs=30)
def ridge(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], b: ps.Model, rate: ps.Meta = 0.1, penalty: ps.Meta = 0.001):
    error = ps.sum(w * x) + b - y
    step = ps.mean(error * x, 16) + penalty * w
    ps.until(ps.norm(step) < 0.0001)
    return w - rate * step, b - rate * ps.mean(error, 16)
