"""The success criteria of the inner loop as an experiment: up to which errors of judge and reviser do they hold?"""
