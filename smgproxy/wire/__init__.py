"""Bytes to meaning and back, without any I/O."""
