"""The file behind --priority-scheduler-config: classes, and the tenants' ceilings.

    classes:
      interactive:
        reserved_floor: 8               # slots kept free of lower classes
        reserved_per_slot: 0.25         # or this share of the capacity, if it is more
        queue_size: 256
        queue_timeout_secs: 30
        starvation_threshold_secs: 5    # then served past others' reservations
        can_preempt: true
    tenant_policies:
      auth:red: { max_class: system }

Both maps may be left out, and so may any class, which then keeps its built-in row; but
a class that is given is given whole, for half a row from here and half from there would
be a surprise.
"""

from __future__ import annotations

import re

from smgproxy.admission.classes import (
    BUILT_IN,
    CLASS_NAMES,
    RANKS,
    ClassLimits,
    SchedulerConfig,
)
from smgproxy.admission.yamlfile import Value, one_of, parse_yaml, read_yaml

# What tenant keys look like (seed: Request Headers; authentication makes no others).
_TENANT_KEY = re.compile(r"(auth|header|ip):.+|anonymous", re.DOTALL)
_REQUIRED = (
    "reserved_floor",
    "queue_size",
    "queue_timeout_secs",
    "starvation_threshold_secs",
    "can_preempt",
)


def read_config(path: str) -> SchedulerConfig:
    """The configuration in a file. Raises YamlFault."""
    return _config(read_yaml(path))


def parse_config(text: bytes, file: str) -> SchedulerConfig:
    """The configuration in the text of a file of that name. Raises YamlFault."""
    return _config(parse_yaml(text, file))


def _config(document: Value | None) -> SchedulerConfig:
    if document is None:
        return SchedulerConfig()
    top = document.fields((), ("classes", "tenant_policies"))
    limits = list(BUILT_IN)
    if "classes" in top:
        for name, value in top["classes"].entries().items():
            if name not in RANKS:
                raise value.fault(f"unknown class; use {one_of(CLASS_NAMES)}")
            limits[RANKS[name]] = _class_limits(value)
    ceilings: dict[str, int] = {}
    notices: list[str] = []
    if "tenant_policies" in top:
        for tenant, value in top["tenant_policies"].entries().items():
            found = value.fields(("max_class",))["max_class"]
            ceilings[tenant] = RANKS[found.word(CLASS_NAMES)]
            if not _TENANT_KEY.fullmatch(tenant):
                notices.append(str(value.fault(_NO_SUCH_TENANT)))
    return SchedulerConfig(tuple(limits), ceilings, tuple(notices))


_NO_SUCH_TENANT = (
    "no request has this tenant key; write auth:<id>, header:<id>, ip:<address> "
    "or anonymous"
)


def _class_limits(value: Value) -> ClassLimits:
    found = value.fields(_REQUIRED, ("reserved_per_slot",))
    per_slot = found.get("reserved_per_slot")
    return ClassLimits(
        reserved_floor=found["reserved_floor"].integer(0),
        reserved_per_slot=0.0 if per_slot is None else per_slot.number(),
        queue_size=found["queue_size"].integer(0),
        queue_timeout_secs=found["queue_timeout_secs"].integer(1),
        starvation_threshold_secs=found["starvation_threshold_secs"].integer(1),
        can_preempt=found["can_preempt"].boolean(),
    )
