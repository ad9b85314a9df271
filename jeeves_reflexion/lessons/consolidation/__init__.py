"""Consolidation: a stored library of lessons made smaller and clearer, one checked operation at a time."""
