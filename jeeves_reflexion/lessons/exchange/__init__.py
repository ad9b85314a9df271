"""Lessons as files: JSON lines and Markdown, out and in."""
