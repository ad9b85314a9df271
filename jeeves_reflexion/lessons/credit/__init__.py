"""Credit: what was recalled, how it went, and what each lesson is worth.

The way in is :class:`~jeeves_reflexion.lessons.credit.ledger.Ledger`, which notes recalls and verdicts and adds them up
(``verdicts``, ``tally``); ``effects`` draws what is withheld and says from the two groups what a lesson does.
"""
