"""The plan for a real model on the paper's three benchmarks, fixed in advance, and the command that executes it."""
