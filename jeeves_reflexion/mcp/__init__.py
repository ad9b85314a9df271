"""Lessons for any MCP client: what a tool does (``service.py``), MCP's surface (``server.py``), HTTP (``http.py``).

``tokens.py`` says who may do what over HTTP. The extra ``mcp`` brings the protocol.
"""
