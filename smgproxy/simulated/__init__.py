"""Simulated inference workers: what to talk to when there is no engine.

Real HTTP/1.1 servers on loopback ports that answer as an engine would, with a
set time to first token and a set rate, and text that follows from the prompt
alone. For `smg launch --simulated-workers` and for end-to-end tests.

The room stands by itself: it imports nothing of the gateway, so that a fault of
the gateway's own wire code cannot hide in the worker it is tested against.
"""
