"""What makes lessons worth having, measured: redaction, screening, merging, recall, credit."""
