"""The asyncio Protocols that face clients; what a request means is decided elsewhere."""
