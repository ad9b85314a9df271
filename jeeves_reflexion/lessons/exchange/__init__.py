"""Lessons as JSON lines: what a file says, and what an import of it does, or would do, to a store."""
