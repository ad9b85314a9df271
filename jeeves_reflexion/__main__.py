"""``python -m jeeves_reflexion``: the command ``jeeves-reflexion``."""

from jeeves_reflexion.cli import main

main()
