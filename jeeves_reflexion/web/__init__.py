"""Lessons and runs in a browser. ``jeeves-reflexion ui`` starts the server; needs the extra ``web``.

Pages are rendered on the server. ``app.py`` has the routes, ``access.py`` decides who may see them, and
``lesson_pages.py`` and ``run_pages.py`` fill the templates of ``templates/``.
"""
