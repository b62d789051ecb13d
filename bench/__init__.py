"""Benchmarks: mooring against the floor, the same system calls in a plain loop, measured in one run."""
