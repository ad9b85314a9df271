"""An executor that makes the tries of an experiment in worker processes on a Ray cluster."""
