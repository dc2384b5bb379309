"""What a request means: pure functions from bytes to a call, or to an error."""
