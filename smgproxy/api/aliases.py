"""--model-alias: names that clients may use for a model."""

from __future__ import annotations

import dataclasses

from smgproxy.core.options import flag


def parse_alias(text: str) -> str:
    """One ALIAS=CANONICAL, checked. Raises ValueError."""
    alias, has_canonical, canonical = text.partition("=")
    if not alias or not has_canonical or not canonical:
        raise ValueError(f"must be ALIAS=CANONICAL, not {ascii(text[:100])}")
    if alias == canonical:
        raise ValueError(f"{ascii(alias[:100])} must stand for another name")
    return text


@dataclasses.dataclass(frozen=True)
class AliasOptions:
    """Further names of models."""

    model_aliases: tuple[str, ...] = flag(
        (),
        "--model-alias",
        "Request Handling",
        "another name that clients may use for a model, case-sensitive and not listed; "
        "workers get the canonical name; may be repeated",
        metavar="ALIAS=CANONICAL",
        is_list=True,
        parse=parse_alias,
    )

    def __post_init__(self) -> None:
        names: dict[str, str] = {}
        for pair in self.model_aliases:
            alias, _, canonical = pair.partition("=")
            if names.setdefault(alias, canonical) != canonical:
                raise ValueError(
                    f"--model-alias: {ascii(alias[:100])} stands for two models, "
                    f"{ascii(names[alias][:100])} and {ascii(canonical[:100])}; "
                    "leave one of them out"
                )

    def canonical_names(self) -> dict[str, str]:
        """What each alias stands for."""
        pairs = (pair.partition("=") for pair in self.model_aliases)
        return {alias: canonical for alias, _, canonical in pairs}
