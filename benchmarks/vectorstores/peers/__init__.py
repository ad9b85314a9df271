"""Other stores, each in a process of its own environment, taking turns with ours."""
