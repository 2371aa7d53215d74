"""The model of a learned index: where in its group is a key, by the bytes that tell the group's keys apart.

Data: any table with a column of texts, in the order of their arrival:
`penstock simulate examples/rank_model.py:slots --data keys.csv --bind key=url`. The hardware refits a group from its memo and the changed keys alone.
`rank_model` counts keys; `slots` leaves gaps in the array, so that a new key moves few others, which is what the hardware is fastest at.
"""

import penstock as ps


@ps.fit
def rank_model(key: ps.Key):
    return ps.least_squares(ps.window(key, 32), target=ps.rank(key))


@ps.fit(method="gram", incremental=True)
def slots(key: ps.Key):
    return ps.least_squares(ps.window(key, 32), target=ps.slot(key))
