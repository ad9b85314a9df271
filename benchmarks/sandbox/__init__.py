"""What a sandboxed evaluation costs, beside a bare process of the same interpreter."""
