"""A store in a folder of one machine: its rows in SQLite, and what searches them quickly derived from these.

A write goes :mod:`store` → :mod:`writer` (one thread, all that wait in one transaction) → :mod:`rows` and
:mod:`records`. A search goes :mod:`store` → :mod:`index` → :mod:`namespace`, which follows the log of changes and
searches its :mod:`codes`, or all vectors. :mod:`upkeep` writes files of large namespaces (:mod:`snapshot`).
"""

from vectorstores.sqlite_faiss.store import FaissVectorStore

__all__ = ["FaissVectorStore"]
