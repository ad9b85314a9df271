"""``jeeves-reflexion lessons``: what can be done with the lessons of a store.

``commands`` and ``file_commands`` say what is asked for, the services beside do it, ``views`` shows it.
"""
