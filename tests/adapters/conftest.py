"""The conformance suite is imported by the tests of each framework."""
