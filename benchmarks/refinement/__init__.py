"""The success criteria of seed 001 as an experiment: up to which errors of judge and reviser does each bound hold."""
