"""A store in a folder of one machine: rows in SQLite, and a search index that is derived from them.

A write goes :mod:`store` → :mod:`writer` (one thread, which commits all waiting writes together) → :mod:`rows` and
:mod:`records`. A search goes :mod:`store` → :mod:`index` → :mod:`namespace`, which follows the log of changes and
searches its :mod:`codes` or all vectors. :mod:`upkeep` writes the index files of large namespaces (:mod:`snapshot`).
"""

from vectorstores.sqlite_faiss.store import FaissVectorStore

__all__ = ["FaissVectorStore"]
