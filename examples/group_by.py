"""Count, sum, least and greatest of each group: `SELECT g, count(*), sum(x), min(x), max(x) … GROUP BY g`.

Data: the columns `g` (whole numbers or texts) and `x`. Groups without a tuple have the count 0. Least and greatest begin at the ends
of 16 bits: for other values begin further out, as in `--init least=1e9 --init most=-1e9`. A sum that leaves a
fixed format is an error (E841); with `--on-overflow saturate` it stops at the end, which the report counts (`left range`).
"""

import penstock as ps


@ps.kernel(init={"least": 32767, "most": -32768})
def group_by(
    g: ps.Index["n"],
    x: ps.Input,
    many: ps.Model["n"],
    total: ps.Model["n"],
    least: ps.Model["n"],
    most: ps.Model["n"],
):
    return many.at[g].add(1), total.at[g].add(x), least.at[g].min(x), most.at[g].max(x)
