"""Screening: text that hides, and text that commands."""
