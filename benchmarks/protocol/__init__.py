"""The plan for a real model on the paper's three benchmarks, fixed beforehand, and the command that carries it out."""
