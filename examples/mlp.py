"""A two-layer perceptron with tanh units and a logistic output, trained by back-propagation.

Data: as for logistic.py, `examples/data/cancer` for example. The number of hidden units is chosen with --dim h=8.
"""

import penstock as ps


@ps.kernel(epochs=10, init={"A": ps.uniform(-0.3, 0.3, seed=1), "v": ps.uniform(-0.3, 0.3, seed=2)})
def mlp(x: ps.Input["d"], y: ps.Output, A: ps.Model["h", "d"], a: ps.Model["h"], v: ps.Model["h"], rate: ps.Meta = 0.02):
    hidden = ps.tanh(A @ x + a)
    error = ps.sigmoid(ps.sum(v * hidden)) - y
    back = error * v * (1 - hidden * hidden)
    return (A - rate * ps.merge(ps.outer(back, x), 16), a - rate * ps.merge(back, 16), v - rate * ps.merge(error * hidden, 16))
