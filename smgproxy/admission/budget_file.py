"""The file behind --tenant-rate-limit-config, read once, at the start.

default_policy:                     # of every tenant that is not listed, for itself
  tokens_per_minute: 100000
  requests_per_minute: 600
  model_rules:                      # a quota of their own for some models
    - rule_id: big-models
      matcher: { type: prefix, value: llama-70b }
      tokens_per_minute: 20000
      requests_per_minute: 60
tenants:
  - tenant_key: auth:red
    tokens_per_minute: 1000000
    requests_per_minute: 6000
"""

from __future__ import annotations

import ipaddress
import re

from smgproxy.admission.budget_rules import ModelRule, Policy, Quota, TenantRules
from smgproxy.admission.yamlfile import Value, YamlFault, parse_yaml, read_yaml

# Counted together: tenants, and model rules of all of them.
MAX_ENTRIES = 100_000
_RULE_ID = re.compile(r"[A-Za-z0-9._-]+")
_QUOTA = ("tokens_per_minute", "requests_per_minute")


def read_rules(path: str) -> TenantRules:
    """The rules in a file. Raises YamlFault."""
    return _rules(read_yaml(path), path)


def parse_rules(text: bytes, file: str) -> TenantRules:
    """The rules in the text of a file of that name. Raises YamlFault."""
    return _rules(parse_yaml(text, file), file)


def _rules(document: Value | None, file: str) -> TenantRules:
    if document is None:
        raise YamlFault(file, 0, "", "is empty; default_policy is needed")
    return _Reader().document(document)


class _Reader:
    """Turns values into rules; counts them, because an alias can repeat a list."""

    def __init__(self) -> None:
        self._entries = 0

    def document(self, root: Value) -> TenantRules:
        top = root.fields(("default_policy",), ("tenants",))
        value = top["default_policy"]
        found = value.fields(_QUOTA, ("model_rules",))
        default = self._policy(value, found)
        tenants: dict[str, Policy] = {}
        for value in top["tenants"].items() if "tenants" in top else ():
            found = value.fields(("tenant_key", *_QUOTA), ("model_rules",))
            key = _tenant_key(found["tenant_key"])
            if key in tenants:
                raise found["tenant_key"].fault(
                    f"duplicate tenant_key {key!a}; keep one of the two entries"
                )
            tenants[key] = self._policy(value, found)
        return TenantRules(default, tenants)

    def _policy(self, value: Value, found: dict[str, Value]) -> Policy:
        self._count(value)
        rules: list[ModelRule] = []
        for item in found["model_rules"].items() if "model_rules" in found else ():
            rules.append(self._rule(item, rules))
        return Policy(_quota(found), tuple(rules))

    def _rule(self, value: Value, earlier: list[ModelRule]) -> ModelRule:
        self._count(value)
        found = value.fields(("rule_id", "matcher", *_QUOTA))
        rule_id = found["rule_id"].text()
        if _RULE_ID.fullmatch(rule_id) is None:
            raise found["rule_id"].fault(f"{rule_id!a} must match [A-Za-z0-9._-]+")
        is_prefix, model = _matcher(found["matcher"])
        for one in earlier:
            if one.rule_id == rule_id:
                raise found["rule_id"].fault(f"duplicate {rule_id!a}; rename one")
            if (one.is_prefix, one.value) == (is_prefix, model):
                raise found["matcher"].fault(
                    f"duplicates that of rule {one.rule_id!a}; keep one of the two"
                )
        return ModelRule(rule_id, is_prefix, model, _quota(found))

    def _count(self, value: Value) -> None:
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            raise value.fault(f"more than {MAX_ENTRIES} tenants and rules")


def _quota(found: dict[str, Value]) -> Quota:
    return Quota(*(found[name].integer(1) for name in _QUOTA))


def _matcher(value: Value) -> tuple[bool, str]:
    """Whether a matcher is a prefix, and its value."""
    found = value.fields(("type", "value"))
    kind = found["type"].word(("exact", "prefix"))
    model = found["value"].text()
    if not model or model != model.strip():
        raise found["value"].fault("must not be empty, nor have blanks around it")
    return kind == "prefix", model


def _tenant_key(value: Value) -> str:
    key = value.text()
    if not _is_canonical(key):
        raise value.fault(
            f"{key!a} is not a canonical serving-path tenant key (expected auth:<id>, "
            "header:<id>, ip:<address>, or anonymous)"
        )
    return key


def _is_canonical(key: str) -> bool:
    """Whether a request could have this tenant key."""
    kind, _, rest = key.partition(":")
    if kind in ("auth", "header"):
        return bool(rest) and rest == rest.strip()
    if kind != "ip":
        return key == "anonymous"
    try:
        return str(ipaddress.ip_address(rest)) == rest
    except ValueError:
        return False
