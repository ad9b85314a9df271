"""Lessons for any MCP client, over stdio (``server.py``) or HTTP (``http.py``).

``tools.py`` has what a client may do, ``values.py`` what it gets, and ``tokens.py`` who may do what over HTTP. The
extra ``mcp`` installs the protocol.
"""
