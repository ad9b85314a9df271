"""Attacks on the sandbox, and the matrix of ways and users that they are tried with."""
