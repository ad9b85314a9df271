"""Trials of an experiment in worker processes on Ray: an executor beside the one that runs them in this process."""
