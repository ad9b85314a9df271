"""Lessons as JSON lines: ``lines`` is the format, ``files`` says what an import does, or would do, to a store."""
