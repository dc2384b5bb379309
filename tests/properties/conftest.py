"""How hypothesis runs here: the same examples every time, so that a run can be judged.

HYPOTHESIS_PROFILE=search looks for new ones, and longer.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile(
    "house", deadline=None, max_examples=100, derandomize=True, database=None
)
settings.register_profile("search", deadline=None, max_examples=5000, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))
