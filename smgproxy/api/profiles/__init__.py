"""Provider profiles: each module here declares some, in ``PROFILES``.

Adding a profile means adding one file.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache

from smgproxy.api.profiles.profile import BASELINE, Profile

# Names are the clients' to choose: few are remembered, and no long ones.
_REMEMBERED = 1024
_LONGEST_REMEMBERED = 256


def _declared() -> list[tuple[str, Profile]]:
    """Every marker with its profile."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [
        (marker, profile)
        for module in modules
        for profile in getattr(module, "PROFILES", ())
        for marker in profile.markers
    ]


_MARKERS = _declared()


def select(model: str) -> Profile:
    """The profile of a model's name as the client sent it.

    The first segment that marks any decides the family, all of them together which of
    its profiles: ``zai-org/GLM-5.3`` is a GLM-5.3, ``zai-org/kimi-k3`` is no Kimi.
    """
    if len(model) > _LONGEST_REMEMBERED:
        return _select(model)
    return _remembered(model)


def _select(model: str) -> Profile:
    found = [one for each in model.lower().split("/") for one in _marks(each)]
    if not found:
        return BASELINE
    family = found[0].family
    return max((one for one in found if one.family == family), key=_rank)


def _marks(segment: str) -> list[Profile]:
    return [
        profile
        for marker, profile in _MARKERS
        if (segment == marker if profile.is_exact else segment.startswith(marker))
    ]


def _rank(profile: Profile) -> int:
    return profile.rank


_remembered = lru_cache(_REMEMBERED)(_select)
