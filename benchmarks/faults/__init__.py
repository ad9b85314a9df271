"""Processes that write to one store are killed at random moments; what was acknowledged must be there."""
