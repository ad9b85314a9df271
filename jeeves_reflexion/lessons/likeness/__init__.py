"""Whether two lessons say the same, or the opposite."""
