"""Credit: what was recalled, how it went, and what each lesson is worth."""
