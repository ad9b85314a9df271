"""The page: lessons and runs in a browser, for people. ``jeeves-reflexion ui`` starts it; needs the extra ``web``.

Server-rendered: ``app.py`` has the routes, ``access.py`` says who is let in, ``lesson_pages.py`` and ``run_pages.py``
are what is shown, ``templates/`` how.
"""
