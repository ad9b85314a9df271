"""Benchmarks: thin layers of tasks, an agent and an evaluator over the public API of jeeves_reflexion."""
