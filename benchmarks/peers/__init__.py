"""A peer's Reflexion and ours on the same ALFWorld games, with one player, judge and reflector for both."""
