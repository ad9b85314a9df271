"""What the schema evaluator costs, beside jsonschema itself."""
