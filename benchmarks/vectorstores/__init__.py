"""What the stores cost: searches, filters, writes, opening and memory, compared with bare engines."""
