"""From the records of benchmarks to a page that stands alone, and to the README."""
