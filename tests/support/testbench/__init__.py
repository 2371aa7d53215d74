"""What tests and benchmarks share: generators of cases, benches, a toy engine. `tests/support` is on the path where they run."""
