"""Credit: what was recalled, how the attempts went, and what each lesson is worth.

The way in is :class:`~jeeves_reflexion.lessons.credit.ledger.Ledger`, which notes recalls and verdicts and adds them up
(``verdicts``, ``tally``). ``effects`` draws which lessons are withheld, and estimates the effect of each.
"""
