"""Texts with metadata, kept and found again by meaning: in memory, on disk with FAISS, or in PostgreSQL.

The way in is ``open_store(address)``. Importing this package loads none of its backends: each name of ``__init__.pyi``
brings its own when it is first used.
"""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
