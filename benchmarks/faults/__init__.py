"""Kills processes that write to one store at random moments, and checks that everything acknowledged is there."""
