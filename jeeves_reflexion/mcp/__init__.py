"""Lessons for any MCP client: what it may do (``tools.py``) and gets (``values.py``), MCP (``server.py``), ``http.py``.

``tokens.py`` says who may do what over HTTP. The extra ``mcp`` brings the protocol.
"""
