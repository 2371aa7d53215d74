"""State updates beside DRAM banks: numbers, unit, schedules, and what they are worth in a system."""
