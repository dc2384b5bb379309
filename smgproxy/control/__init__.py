"""The answers the gateway gives itself: health, models, the worker registry, loads."""
