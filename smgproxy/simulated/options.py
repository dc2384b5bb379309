"""What a person may choose about simulated workers."""

import math
from dataclasses import dataclass

MAX_WORKERS = 64


@dataclass(frozen=True, slots=True)
class SimulatedOptions:
    """How many workers, under which model name, and how fast they generate.

    `ttft_ms` passes before the first token of every answer, then
    `tokens_per_second` come per stream; a rate of 0 is unpaced, all at once.
    """

    count: int = 1
    model: str = "sim-model"
    ttft_ms: float = 50.0
    tokens_per_second: float = 50.0

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_WORKERS:
            raise ValueError(f"count must be between 1 and {MAX_WORKERS}")
        if not self.model:
            raise ValueError("model must not be empty")
        for name in ("ttft_ms", "tokens_per_second"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a number of at least 0")
