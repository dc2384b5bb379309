"""The samples of families, as lines of the metrics page."""

from __future__ import annotations

from collections.abc import Iterable

from smgproxy.telemetry.families import Family


def lines(families: Iterable[Family]) -> list[str]:
    """One line for each sample, in order."""
    found = []
    for family in families:
        for name, labels, value, *_ in family.metric().samples:
            pairs = ",".join(f'{label}="{text}"' for label, text in labels.items())
            found.append(f"{name}{{{pairs}}} {value:g}")
    return found
