"""The file of budgets: what it may say, and what each fault of it is told as."""

from __future__ import annotations

import pytest

from smgproxy.admission import budget_file
from smgproxy.admission.budget_file import parse_rules
from smgproxy.admission.budget_rules import ModelRule, Quota, TenantRules
from smgproxy.admission.yamlfile import YamlFault

DEFAULT = "default_policy: {tokens_per_minute: 100, requests_per_minute: 10}\n"
WHOLE = """
default_policy:
  tokens_per_minute: 1000
  requests_per_minute: 60
  model_rules:
    - rule_id: big
      matcher: {type: prefix, value: llama-}
      tokens_per_minute: 500
      requests_per_minute: 5
tenants:
  - tenant_key: auth:red
    tokens_per_minute: 9000
    requests_per_minute: 600
  - {tenant_key: "header:team a", tokens_per_minute: 1, requests_per_minute: 2}
  - {tenant_key: "ip:2001:db8::1", tokens_per_minute: 1, requests_per_minute: 2}
  - {tenant_key: anonymous, tokens_per_minute: 1, requests_per_minute: 2}
"""


def rules(text: str) -> TenantRules:
    return parse_rules(text.encode(), "budgets.yaml")


def fault(text: str) -> str:
    with pytest.raises(YamlFault) as caught:
        rules(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_whole_file() -> None:
    found = rules(WHOLE)
    assert found.default.quota == Quota(1000, 60)
    assert found.default.rules == (ModelRule("big", True, "llama-", Quota(500, 5)),)
    assert list(found.tenants) == [
        *("auth:red", "header:team a", "ip:2001:db8::1", "anonymous"),
    ]
    assert found.policy_of("auth:red").quota == Quota(9000, 600)
    assert found.policy_of("auth:blue") is found.default


@pytest.mark.parametrize("tenants", ["", "tenants:\n", "tenants: []\n"])
def test_tenants_may_be_left_out(tenants: str) -> None:
    assert rules(DEFAULT + tenants).tenants == {}


def tenant(text: str) -> str:
    """A file with one more tenant, which begins in line 3."""
    quota = "    tokens_per_minute: 1\n    requests_per_minute: 1\n"
    return f"{DEFAULT}tenants:\n  - {text}\n{quota}"


def model_rules(*items: str) -> str:
    """A file whose default has rules, from line 5 on."""
    lead = (
        "default_policy:\n  tokens_per_minute: 1\n"
        "  requests_per_minute: 1\n  model_rules:\n"
    )
    return lead + "".join(f"    - {item}\n" for item in items)


def one_rule(rule_id: str = "a", matcher: str = "{type: exact, value: m}") -> str:
    return (
        f"{{rule_id: {rule_id}, matcher: {matcher}, "
        "tokens_per_minute: 1, requests_per_minute: 1}"
    )


QUOTA = "tokens_per_minute, requests_per_minute"
FAULTS = [
    ("", " is empty; default_policy is needed"),
    ("# nothing\n", " is empty; default_policy is needed"),
    ("tenants: []", "1: default_policy is missing; needed are default_policy"),
    ("[]", "1: must be a mapping, not a list"),
    (
        "default_policy: {tokens_per_minute: 1}",
        f"1: default_policy: requests_per_minute is missing; needed are {QUOTA}",
    ),
    ("default_policy: 5", "1: default_policy: must be a mapping, not 5"),
    (
        DEFAULT.replace("{", "{tenant_key: 'auth:a', "),
        f"1: default_policy.tenant_key: unknown key; use {QUOTA} or model_rules",
    ),
    (DEFAULT + "tenant: []", "2: tenant: unknown key; use default_policy or tenants"),
    (
        DEFAULT + "\n" + DEFAULT,
        "3: default_policy: given twice, first in line 1; remove one of them",
    ),
    (
        DEFAULT + "tenants: {a: 1}",
        "2: tenants: must be a list, its items begin with '- ', not a mapping",
    ),
    (
        tenant("# none"),
        f"4: tenants[0]: tenant_key is missing; needed are tenant_key, {QUOTA}",
    ),
    (
        tenant("tenant_key: acme"),
        "3: tenants[0].tenant_key: 'acme' is not a canonical serving-path tenant key "
        "(expected auth:<id>, header:<id>, ip:<address>, or anonymous)",
    ),
    (
        tenant("tenant_key: ' auth:a'"),
        "3: tenants[0].tenant_key: ' auth:a' is not a canonical serving-path tenant "
        "key (expected auth:<id>, header:<id>, ip:<address>, or anonymous)",
    ),
    (
        tenant("tenant_key: 7"),
        "3: tenants[0].tenant_key: must be text, in quotes, not 7",
    ),
    (
        tenant("tenant_key: auth:a")
        + tenant("tenant_key: auth:a").partition("s:\n")[2],
        "6: tenants[1].tenant_key: duplicate tenant_key 'auth:a'; "
        "keep one of the two entries",
    ),
    (
        tenant("tenant_key: auth:a\n    tokens_per_minute: 2"),
        "5: tenants[0].tokens_per_minute: given twice, first in line 4; "
        "remove one of them",
    ),
    (
        tenant("tenant_key: auth:a").replace("_minute: 1\n", "_minute: 0\n", 1),
        "4: tenants[0].tokens_per_minute: must be a whole number, 1 or more, not 0",
    ),
    (
        model_rules(one_rule("'a b'")),
        "5: default_policy.model_rules[0].rule_id: 'a b' must match [A-Za-z0-9._-]+",
    ),
    (
        model_rules(one_rule("a"), one_rule("b")),
        "6: default_policy.model_rules[1].matcher: duplicates that of rule 'a'; "
        "keep one of the two",
    ),
    (
        model_rules(one_rule("a"), one_rule("a", "{type: exact, value: n}")),
        "6: default_policy.model_rules[1].rule_id: duplicate 'a'; rename one",
    ),
    (
        model_rules(one_rule(matcher="{type: regex, value: m}")),
        "5: default_policy.model_rules[0].matcher.type: must be exact or prefix, "
        "not regex",
    ),
    (
        model_rules(one_rule(matcher="{type: exact, value: ' m'}")),
        "5: default_policy.model_rules[0].matcher.value: must not be empty, "
        "nor have blanks around it",
    ),
    (
        model_rules(one_rule(matcher="{type: exact, value: ''}")),
        "5: default_policy.model_rules[0].matcher.value: must not be empty, "
        "nor have blanks around it",
    ),
    (
        model_rules("{rule_id: a, tokens_per_minute: 1, requests_per_minute: 1}"),
        "5: default_policy.model_rules[0]: matcher is missing; "
        f"needed are rule_id, matcher, {QUOTA}",
    ),
]


@pytest.mark.parametrize(("text", "told"), FAULTS)
def test_fault_is_told_with_its_line(text: str, told: str) -> None:
    assert fault(text) == f"budgets.yaml:{told}"


@pytest.mark.parametrize(
    "number", ["-1", "1.5", "1e3", "'5'", "true", "", "010", "1_0"]
)
def test_quota_is_a_whole_number(number: str) -> None:
    text = f"default_policy:\n  tokens_per_minute: {number}\n  requests_per_minute: 1\n"
    assert fault(text) == (
        "budgets.yaml:2: default_policy.tokens_per_minute: must be a whole number, "
        f"1 or more, not {number or 'nothing'}"
    )


@pytest.mark.parametrize(
    ("key", "is_canonical"),
    [
        ("auth:a", True),
        ("auth:", False),
        ("auth", False),
        ("header:x y", True),
        ("header:", False),
        ("ip:127.0.0.1", True),
        ("ip:127.0.0.01", False),
        ("ip:2001:DB8::1", False),
        ("ip:", False),
        ("ip:host", False),
        ("anonymous", True),
        ("anonymous:", False),
        ("Auth:a", False),
    ],
)
def test_tenant_key_is_one_a_request_can_have(key: str, is_canonical: bool) -> None:
    text = tenant(f"tenant_key: '{key}'")
    if is_canonical:
        assert list(rules(text).tenants) == [key]
    else:
        assert "is not a canonical serving-path tenant key" in fault(text)


def test_exact_and_prefix_may_share_a_value() -> None:
    text = model_rules(one_rule("a"), one_rule("b", "{type: prefix, value: m}"))
    assert len(rules(text).default.rules) == 2


def test_aliases_cannot_blow_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_file, "MAX_ENTRIES", 50)
    listed = ", ".join([one_rule("r1").replace("{", "&r {", 1), *["*r"] * 60])
    many = [f"rule_id: r{n}, matcher: {{type: exact, value: m{n}}}" for n in range(60)]
    quota = "tokens_per_minute: 1, requests_per_minute: 1"
    text = model_rules(*(f"{{{one}, {quota}}}" for one in many))
    assert "more than 50 tenants and rules" in fault(text)
    assert "duplicate" in fault(model_rules().rstrip() + f" [{listed}]\n")
