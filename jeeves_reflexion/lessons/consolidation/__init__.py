"""Consolidation: operations on lessons, proposed, checked, shown and made."""
