"""Who may use a route: the planes of the contract."""

from __future__ import annotations

from enum import Enum


class Access(Enum):
    """Which credential a route asks for, once any is configured (seed: Authentication).

    PUBLIC never asks. SERVING takes shared keys and tenants' keys. CONTROL takes
    control-plane keys of role admin if there are any, else shared keys only.
    """

    PUBLIC = "public"
    SERVING = "serving"
    CONTROL = "control"
