"""TLS on both sides: files made into contexts, and the layer above a socket."""
