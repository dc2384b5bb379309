"""The story of a request; the only room that knows the order of things."""
