"""The selection policies, one module each, and their names."""

from __future__ import annotations

from smgproxy.routing.policies.policy import Policy
from smgproxy.routing.policies.random import RandomPolicy
from smgproxy.routing.policies.round_robin import RoundRobinPolicy

POLICIES: dict[str, type[Policy]] = {
    "round_robin": RoundRobinPolicy,
    "random": RandomPolicy,
}
