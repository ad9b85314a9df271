"""Screening: finds hidden text and text that gives orders."""
