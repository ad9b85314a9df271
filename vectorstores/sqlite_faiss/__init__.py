"""A store in a folder of one machine: its rows in SQLite, and what searches them quickly derived from these.

A write goes :mod:`store` → :mod:`writer` (one thread, all that wait in one transaction) → :mod:`rows` and
:mod:`records` → :mod:`upkeep`, which takes what was deleted off the disk. A search goes :mod:`store` → :mod:`index` →
:mod:`namespace`, which follows the log of changes and searches its :mod:`codes`, or all vectors.
"""

from vectorstores.sqlite_faiss.store import FaissVectorStore

__all__ = ["FaissVectorStore"]
