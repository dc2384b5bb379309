"""The file of tenant budgets: which policy holds for a tenant, which rule for a model.

Read once, at the start. The YAML is walked as nodes and not as objects, so that every
fault is told with its line, and a key that stands twice is one.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from typing import Any

from smgproxy.core.options import flag

MAX_FILE_BYTES = 4 * 1024 * 1024
# Counted together: tenants, and model rules of all of them.
MAX_ENTRIES = 100_000
_GROUP = "Tenant Rate Limit"
_RULE_ID = re.compile(r"[A-Za-z0-9._-]+")
_WHOLE = re.compile(r"[1-9][0-9]{0,14}|0")


@dataclasses.dataclass(frozen=True, slots=True)
class Quota:
    """What may be spent in a minute; also the most that can be saved up."""

    tokens_per_minute: int
    requests_per_minute: int


@dataclasses.dataclass(frozen=True, slots=True)
class ModelRule:
    """A quota of its own for the models that match."""

    rule_id: str
    is_prefix: bool
    value: str
    quota: Quota


class Policy:
    """A tenant's quota over all models, and its model rules."""

    __slots__ = ("quota", "rules", "_exact", "_prefixes")

    def __init__(self, quota: Quota, rules: tuple[ModelRule, ...] = ()) -> None:
        self.quota = quota
        self.rules = rules
        self._exact = {one.value: one for one in rules if not one.is_prefix}
        prefixes = [one for one in rules if one.is_prefix]
        self._prefixes = sorted(prefixes, key=lambda one: -len(one.value))

    def rule_for(self, model: str | None) -> ModelRule | None:
        """The one rule of a model: an exact one before prefixes, the longest first."""
        if model is None:
            return None
        exact = self._exact.get(model)
        if exact is not None:
            return exact
        for rule in self._prefixes:
            if model.startswith(rule.value):
                return rule
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class TenantRules:
    """Every tenant's policy; who is not listed has the default's, for itself."""

    default: Policy
    tenants: dict[str, Policy] = dataclasses.field(default_factory=dict)

    def policy_of(self, tenant: str) -> Policy:
        """The policy of a tenant key."""
        return self.tenants.get(tenant, self.default)


@dataclasses.dataclass(frozen=True)
class BudgetOptions:
    """Whether tenants have budgets, and which."""

    tenant_rate_limit_enabled: bool = flag(
        False,
        "--tenant-rate-limit-enabled",
        _GROUP,
        "give each tenant a budget of tokens and requests a minute",
    )
    tenant_rate_limit_config: str | None = flag(
        None,
        "--tenant-rate-limit-config",
        _GROUP,
        "YAML file of the budgets, read with --tenant-rate-limit-enabled",
        metavar="FILE",
    )

    def rules(self) -> TenantRules | None:
        """The rules of the file, None when there are no budgets. Raises ValueError."""
        if not self.tenant_rate_limit_enabled:
            return None
        path = self.tenant_rate_limit_config
        if path is None:
            raise ValueError(
                "--tenant-rate-limit-enabled: is set but --tenant-rate-limit-config "
                "is not; name the file of the budgets"
            )
        try:
            with open(path, "rb") as file:
                return read_rules(file.read(MAX_FILE_BYTES + 1))
        except OSError as error:
            why: object = error.strerror or error
            fault = (
                f"cannot be read: {why}; it must be a file the gateway's user may read"
            )
        except RuleError as error:
            fault = str(error)
        raise ValueError(f"--tenant-rate-limit-config: {path}: {fault}")


class RuleError(ValueError):
    """A fault of the file: one line that says where it is and what to write."""


def read_rules(raw: bytes) -> TenantRules:
    """The rules a file's bytes hold. Raises RuleError."""
    # Needed with the flag only, and it takes milliseconds to load.
    import yaml

    if len(raw) > MAX_FILE_BYTES:
        raise RuleError(f"is longer than {MAX_FILE_BYTES} bytes")
    try:
        root = yaml.compose(raw, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f"line {mark.line + 1}: " if mark is not None else ""
        why = " ".join(str(error.problem).split())
        raise RuleError(f"{line}not valid YAML: {why}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise RuleError(f"not valid YAML: {why}") from None
    if root is None:
        raise RuleError("is empty; it needs `default_policy`")
    return _Reader().document(root)


class _Reader:
    """Turns nodes into rules; counts them, because an alias can repeat a list."""

    def __init__(self) -> None:
        self._entries = 0

    def document(self, root: Any) -> TenantRules:
        fields = _fields(root, "", "default_policy", "tenants")
        default_node = _needed(fields, root, "", "default_policy")
        if "tenant_key" in _names(default_node):
            raise _fault(
                default_node, "default_policy must not set tenant_key; remove it"
            )
        default = self._policy(default_node, "default_policy", "default")
        tenants: dict[str, Policy] = {}
        for index, node in enumerate(_items(fields.get("tenants"), "tenants")):
            place = f"tenants[{index}]"
            key = self._tenant_key(node, place)
            if key in tenants:
                raise _fault(
                    node, f"duplicate tenant_key {key!a}; keep one of the two entries"
                )
            tenants[key] = self._policy(node, place, key, "tenant_key")
        return TenantRules(default, tenants)

    def _tenant_key(self, node: Any, place: str) -> str:
        found = _names(node).get("tenant_key")
        if found is None:
            raise _fault(node, f"{place} is missing tenant_key; add one, as auth:<id>")
        key = _text(found, f"{place}: tenant_key")
        if key != key.strip():
            raise _fault(
                found, f"tenant_key {key!a} must not have surrounding whitespace"
            )
        if not _is_canonical(key):
            raise _fault(
                found,
                f"tenant_key {key!a} is not a canonical serving-path tenant key "
                "(expected auth:<id>, header:<id>, ip:<address>, or anonymous)",
            )
        return key

    def _policy(self, node: Any, place: str, name: str, *more: str) -> Policy:
        self._count(node)
        fields = _fields(
            node,
            place,
            *more,
            "tokens_per_minute",
            "requests_per_minute",
            "model_rules",
        )
        quota = _quota(fields, node, place, f"policy {name!a}")
        rules: list[ModelRule] = []
        where = f"{place}.model_rules"
        for index, item in enumerate(_items(fields.get("model_rules"), where)):
            rules.append(self._rule(item, f"{where}[{index}]", name, rules))
        return Policy(quota, tuple(rules))

    def _rule(
        self, node: Any, place: str, policy: str, earlier: list[ModelRule]
    ) -> ModelRule:
        self._count(node)
        fields = _fields(
            *(node, place, "rule_id", "matcher"),
            *("tokens_per_minute", "requests_per_minute"),
        )
        id_node = _needed(fields, node, place, "rule_id")
        rule_id = _text(id_node, f"{place}: rule_id")
        owner = f"policy {policy!a}: rule"
        if _RULE_ID.fullmatch(rule_id) is None:
            raise _fault(
                id_node,
                f"policy {policy!a}: rule_id {rule_id!a} must match [A-Za-z0-9._-]+",
            )
        is_prefix, value = _matcher(_needed(fields, node, place, "matcher"), place)
        for one in earlier:
            if one.rule_id == rule_id:
                raise _fault(
                    id_node, f"policy {policy!a}: duplicate rule_id {rule_id!a}"
                )
            if (one.is_prefix, one.value) == (is_prefix, value):
                raise _fault(
                    node, f"{owner} {rule_id!a} matcher duplicates rule {one.rule_id!a}"
                )
        return ModelRule(
            rule_id,
            is_prefix,
            value,
            _quota(fields, node, place, f"{owner} {rule_id!a}"),
        )

    def _count(self, node: Any) -> None:
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            raise _fault(node, f"more than {MAX_ENTRIES} tenants and rules")


def _fault(node: Any, text: str) -> RuleError:
    return RuleError(f"line {node.start_mark.line + 1}: {text}")


def _names(node: Any) -> dict[str, Any]:
    """The value nodes of a mapping by their key's text, as far as it is one."""
    if node.id != "mapping":
        return {}
    return {key.value: value for key, value in node.value if key.id == "scalar"}


def _fields(node: Any, place: str, *known: str) -> dict[str, Any]:
    """The fields of a mapping; each is known, and stands once."""
    lead = f"{place}: " if place else ""
    if node.id != "mapping":
        raise _fault(node, f"{lead}must be a mapping of fields to values")
    fields: dict[str, Any] = {}
    for key, value in node.value:
        name = key.value if key.id == "scalar" else ""
        if name not in known:
            listed = ", ".join(f"`{one}`" for one in known[:-1])
            expected = f"{listed} or `{known[-1]}`"
            shown = ascii(name)[1:-1]
            raise _fault(key, f"{lead}unknown field `{shown}`, expected {expected}")
        if name in fields:
            raise _fault(key, f"{lead}duplicate field `{name}`; keep one of the two")
        fields[name] = value
    return fields


def _needed(fields: dict[str, Any], node: Any, place: str, name: str) -> Any:
    found = fields.get(name)
    if found is None:
        lead = f"{place}: " if place else ""
        raise _fault(node, f"{lead}missing field `{name}`; add it")
    return found


def _items(node: Any, place: str) -> list[Any]:
    """The items of a list that may be left out, or empty."""
    if node is None or (node.id == "scalar" and node.tag.endswith(":null")):
        return []
    if node.id != "sequence":
        raise _fault(node, f"{place}: must be a list, its items begin with '- '")
    items: list[Any] = node.value
    return items


def _text(node: Any, place: str) -> str:
    if node.id != "scalar" or not node.tag.endswith(":str"):
        raise _fault(node, f"{place}: must be text; put it in quotes")
    value: str = node.value
    return value


def _quota(fields: dict[str, Any], node: Any, place: str, owner: str) -> Quota:
    numbers = []
    for name in ("tokens_per_minute", "requests_per_minute"):
        found = _needed(fields, node, place, name)
        text = found.value if found.id == "scalar" else ""
        is_int = found.tag.endswith(":int") and _WHOLE.fullmatch(text)
        if not is_int:
            raise _fault(found, f"{owner}: {name} must be a whole number, such as 1000")
        numbers.append(int(text))
        if not numbers[-1]:
            raise _fault(found, f"{owner}: {name} must be > 0")
    return Quota(*numbers)


def _matcher(node: Any, place: str) -> tuple[bool, str]:
    """Whether a matcher is a prefix, and its value."""
    where = f"{place}: matcher"
    fields = _fields(node, where, "type", "value")
    kind_node = _needed(fields, node, where, "type")
    kind = _text(kind_node, f"{where}: type")
    if kind not in ("exact", "prefix"):
        raise _fault(kind_node, f"{where}: type must be exact or prefix, got {kind!a}")
    value_node = _needed(fields, node, where, "value")
    value = _text(value_node, f"{where}: value")
    if not value or value != value.strip():
        raise _fault(
            value_node,
            f"{where}: value must not be empty or have surrounding whitespace",
        )
    return kind == "prefix", value


def _is_canonical(key: str) -> bool:
    """Whether a request could have this tenant key."""
    kind, _, rest = key.partition(":")
    if kind in ("auth", "header"):
        return bool(rest)
    if kind != "ip":
        return key == "anonymous"
    try:
        return str(ipaddress.ip_address(rest)) == rest
    except ValueError:
        return False
