"""Linear regression by batched gradient descent: predict a number from the features.

Data: any table with a float4[] column `x` and a numeric column `y`; `examples/data/diabetes` (442 patients, 10 features, the
progression of their disease a year later) is one. Features and label should be of the order of 1; the step is a mean over the batch.
"""

import penstock as ps


@ps.kernel(epochs=20)
def linear(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], b: ps.Model, rate: ps.Meta = 0.1):
    error = ps.sum(w * x) + b - y
    step = ps.mean(error * x, 16)
    return w - rate * step, b - rate * ps.mean(error, 16)
