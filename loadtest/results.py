"""What a run has found so far: one number per program, metric and round."""

from dataclasses import dataclass, field

from loadtest.stats import Metric, Summary, summarise


@dataclass(slots=True)
class Results:
    """Samples of all rounds, and what went wrong, by program."""

    samples: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)

    def add(self, program: str, figures: dict[str, float]) -> None:
        """Record the figures of one round."""
        for key, value in figures.items():
            self.samples.setdefault((program, key), []).append(value)

    def add_fault(self, program: str, text: str) -> None:
        """Record a round, or a start, that failed."""
        self.faults.append((program, text))

    def summary(self, program: str, metric: Metric) -> Summary | None:
        """The metric's value for a program; None when it was not measured."""
        rounds = self.samples.get((program, metric.key))
        return summarise(rounds, metric.pick) if rounds else None

    def faults_of(self, program: str) -> list[str]:
        """What went wrong with one program."""
        return [text for name, text in self.faults if name == program]
