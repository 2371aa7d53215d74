"""A linear support vector machine: the gradient of the hinge loss, with weight decay.

Data: a table with a float4[] column `x` and a label `y` of -1 or 1; `examples/data/cancer_svm` is the cancer
table with such labels.
"""

import penstock as ps


@ps.kernel(epochs=10)
def svm(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.05, decay: ps.Meta = 0.001):
    score = ps.sum(w * x)
    inside = y * score < 1  # 1 where the tuple is on the wrong side of its margin
    step = ps.merge(ps.where(inside, -y, 0) * x, 16)
    return w - rate * (step + decay * w)
