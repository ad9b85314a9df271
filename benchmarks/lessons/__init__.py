"""What makes lessons worth having, measured: recall, reading, credit, harm."""
