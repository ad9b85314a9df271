"""The parts of the PostgreSQL store. Importing this package loads no driver."""
