"""The workers and what is believed about them."""
