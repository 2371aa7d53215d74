"""Logistic regression by batched gradient descent: the probability that a label is 1.

Data: a table with a float4[] column `x` and a label `y` of 0 or 1; `examples/data/cancer` (569 tumours, 30 features, scaled to
unit variance) is one.
"""

import penstock as ps


@ps.kernel(epochs=10)
def logistic(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    error = ps.sigmoid(ps.sum(w * x)) - y
    step = ps.merge(error * x, 16)  # summed over up to 16 tuples
    return w - rate * step  # the new model
