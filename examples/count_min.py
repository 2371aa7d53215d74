"""How often each number comes, at least about, in little room: a count-min sketch of three rows of 1,024 counters.

Data: the column `i` of whole numbers. An estimate is the least of a number's three counters; it is never too low.
"""

import penstock as ps


@ps.kernel
def count_min(i: ps.Index["n"], A: ps.Model[1024], B: ps.Model[1024], C: ps.Model[1024]):
    return (
        A.at[ps.hash(i, 1) % len(A)].add(1),
        B.at[ps.hash(i, 2) % len(B)].add(1),
        C.at[ps.hash(i, 3) % len(C)].add(1),
    )
