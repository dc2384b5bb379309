"""The selection policies, one module each."""
