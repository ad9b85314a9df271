"""Attacks on the sandbox, a host for them to harm, and the command that runs them all."""
