"""Which of my contacts use the service? One batch of 1,000 lookups in a map of its users, behind a server that does not learn whom I know.

`python examples/contacts.py [USERS]` makes up telephone numbers, serves the users' (golden device), and asks for an address book.
"""

import random
import sys
import tempfile
from time import perf_counter

from breached_passwords import served

import penstock as ps

MOST, CONTACTS = 1 << 14, 1_000
KNOWN = CONTACTS // 3
users = ps.ObliviousMap(key=ps.text, value=ps.bytes(8), capacity=MOST)


def main(count=5_000, contacts=CONTACTS):
    draw = random.Random(1)
    telephone = lambda: f"+{draw.randrange(10**10, 10**13)}"
    registered = {telephone(): number.to_bytes(8, "little") for number in range(count)}
    book = [*draw.sample(sorted(registered), contacts // 3), *(telephone() for _ in range(contacts))][:contacts]
    with tempfile.TemporaryDirectory() as folder, served(__file__, folder) as (port, connected):
        with connected(port, "writer.json") as box:
            box.load(registered)
        with connected(port) as box:
            begin = perf_counter()
            found = box.get_many(book)
            seconds = perf_counter() - begin
    print(f"{sum(value is not None for value in found)} of {contacts:,} contacts are among {count:,} users; {seconds:.2f} s for one batch")
    return found == [registered.get(number) for number in book]


if __name__ == "__main__":
    given = sys.argv[1:]
    if len(given) > 1 or not all(each.isdecimal() and KNOWN <= int(each) <= MOST for each in given):
        sys.exit(f"USERS is a number from {KNOWN} to {MOST:,}")
    print("the same as a dictionary's:", main(*map(int, given)))
