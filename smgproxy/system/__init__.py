"""What the gateway and the operating system say to each other.

Readiness and watchdog messages, sockets handed over at start, resource limits.
Nothing here waits, and nothing here knows what a request is: the room imports
nothing of ours. The environment is an argument; `cli` is its only reader.
"""
