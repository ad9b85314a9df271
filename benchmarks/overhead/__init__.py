"""What the loop itself costs: attempts per second with a model that answers at once, beside a peer's."""
