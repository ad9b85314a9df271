"""``python -m benchmarks.vectorstores``."""

from benchmarks.vectorstores.command import main

if __name__ == "__main__":
    main()
