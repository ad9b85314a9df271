"""Structured reflections (seed 002): their Markdown files, their index, and what is owed."""
