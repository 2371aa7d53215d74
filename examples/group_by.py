"""Count, sum, least and greatest of each group: `SELECT g, count(*), sum(x), min(x), max(x) … GROUP BY g`.

Data: the columns `g` (whole numbers or texts) and `x`. Groups without a tuple have the count 0.
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
