"""The selection policies, one module each, and their names."""

from __future__ import annotations

from collections.abc import Callable

from smgproxy.routing.policies.policy import Policy
from smgproxy.routing.policies.random import RandomPolicy
from smgproxy.routing.policies.round_robin import RoundRobinPolicy

POLICIES: dict[str, Callable[[], Policy]] = {
    "round_robin": RoundRobinPolicy,
    "random": RandomPolicy,
}
