"""Lessons as JSON lines, from one store to another: ``lines`` is the format, ``files`` what an import does or would do."""
