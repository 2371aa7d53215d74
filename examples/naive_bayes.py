"""Counts for naive Bayes: tuples and words of each class, and each word in each class.

Data: the columns `label` (which class) and `word` (an array of up to 16: which words). `seen` has one cell for each pair of class and word:
--dim cells= says how many. Where arrays have less than 16: golden results alone.
"""

import penstock as ps


@ps.kernel
def naive_bayes(
    label: ps.Index["k"],
    word: ps.Index["n", 16],
    seen: ps.Model["cells"],
    total: ps.Model["n"],
    of: ps.Model["k"],
    many: ps.Model["k"],
):
    return (
        seen.at[label * len(total) + word].add(1),
        total.at[word].add(1),
        of.at[label].add(1),
        many.at[label].add(ps.count(word)),
    )
