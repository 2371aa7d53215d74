"""Analytical models of machines that others have published, beside what they printed: `penstock reproduce` finds them
(entry points `penstock.papers`). None of it plans, runs or checks hardware of Penstock's."""
