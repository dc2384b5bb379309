"""smgproxy: an event-driven gateway in front of LLM inference workers."""

__version__ = "0.1.0"
