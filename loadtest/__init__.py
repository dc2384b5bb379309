"""Measures the gateway beside other proxies on one simulated worker.

`python -m loadtest` from the repository's root. Nothing in here is part of the
gateway; it starts every program as a user would and looks at it from outside.
"""
