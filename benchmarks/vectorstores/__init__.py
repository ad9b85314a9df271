"""What the stores cost: searches, filters, writes, opening and memory, beside bare engines and other stores."""
