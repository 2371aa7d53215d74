"""The least cycles of a run, by what needs them.

The *plan's* is what no schedule of this plan's units beats, the largest of

* memory: the busiest port's page bytes over the bytes a cycle that the port can carry;
* operations: groups times the beats of the busiest unit;
* recurrence: batches times the way from one model to the next, had every operation a unit of its own, and what the groups of a batch must lie apart.

The *machine's* is what no plan of the kernel on this part beats, the largest of

* memory: the table's bytes over all ports of the part, less refreshes;
* products: those of all tuples over the part's multipliers, or look-up tables that make one;
* recurrence: batches times the way from one model to the next with units, threads and lanes without number. Rows of a matrix, which one unit takes
  one after the other, are not counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import add
from typing import Self

from .mapping import Factors, multiplier_blocks
from .memory.timing import Memory
from .resources import UNITS
from .target import Target

#: look-up tables of an ECP5 for each bit of each row of a product that is made of adders, at least
_ROW = 0.75


class Terms:
    """Least cycles that a run can take, term by term; `cycles` is the largest and `by` its name.

    Dataclasses made of it name their terms; sums of them are term by term as well.
    """

    @property
    def cycles(self) -> int:
        return max(vars(self).values())

    @property
    def by(self) -> str:
        return max(vars(self), key=lambda name: getattr(self, name))

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True)
class Machine(Terms):
    """What no plan of a kernel on a machine beats. It knows no option, so it is the same for all of them."""

    memory: int  #: what must be moved over all ports' pins
    #: that must be formed, over as many multipliers as the part has, or has look-up tables for
    products: int
    recurrence: int  #: what must come one after the other, with units without number
    link: int = 0  #: what streams over the host's link

    @classmethod
    def of(
        cls,
        part: Target,
        memory: Memory,
        words: int,
        products: Iterable[tuple[int, Sequence[Factors]]] = (),
        recurrence: int = 0,
        link: int = 0,
    ) -> Self:
        """Return the bound of a run that reads so many bus words; `products`: how many there are of some with these factors."""
        blocks = luts = 0.0
        for count, factors in products:
            needed = multiplier_blocks(factors, part.family) if part.dsp else 0
            blocks += count * needed
            if not needed:
                luts += count * sum(a * b for a, b, _ in factors) * _ROW * UNITS[part.family]
        return cls(
            memory.least(words // part.ports, 0, part.bus_bytes),
            int(max(blocks / max(part.dsp, 1), luts / part.lut)),
            recurrence,
            link,
        )
