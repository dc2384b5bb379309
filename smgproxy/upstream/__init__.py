"""The asyncio Protocols that face workers; which worker is decided elsewhere."""
