"""How benchmarks are run, timed, recorded and compared."""
