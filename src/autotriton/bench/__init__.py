"""Benchmarks: any proposer over a suite of tasks, through the one judge, counted honestly."""
