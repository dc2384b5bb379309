"""The asyncio Protocols that face clients; what requests mean is decided elsewhere."""
