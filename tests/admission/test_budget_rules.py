"""The file of budgets: what it may say, and what each fault of it is told as."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from smgproxy.admission import budget_rules
from smgproxy.admission.budget_rules import (
    MAX_FILE_BYTES,
    ModelRule,
    Policy,
    Quota,
    RuleError,
    TenantRules,
    read_rules,
)
from smgproxy.settings import SettingsError
from tests.test_settings import settings_of

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
    return read_rules(text.encode())


def fault(text: str) -> str:
    with pytest.raises(RuleError) as caught:
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


def test_exact_rule_beats_prefixes_and_the_longest_prefix_the_others() -> None:
    quota = Quota(1, 1)
    exact = ModelRule("e", False, "llama-70b", quota)
    short = ModelRule("s", True, "llama-", quota)
    long = ModelRule("l", True, "llama-70b", quota)
    policy = Policy(quota, (short, exact, long))
    assert policy.rule_for("llama-70b") is exact
    assert policy.rule_for("llama-70b-instruct") is long
    assert policy.rule_for("llama-8b") is short
    assert policy.rule_for("Llama-8b") is None
    assert policy.rule_for(None) is None


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


FAULTS = [
    ("", "is empty; it needs `default_policy`"),
    ("# nothing\n", "is empty; it needs `default_policy`"),
    ("tenants: []", "line 1: missing field `default_policy`; add it"),
    ("[]", "line 1: must be a mapping of fields to values"),
    (
        "default_policy: {tokens_per_minute: 1}",
        "line 1: default_policy: missing field `requests_per_minute`; add it",
    ),
    (
        "default_policy: 5",
        "line 1: default_policy: must be a mapping of fields to values",
    ),
    (
        DEFAULT.replace("{", "{tenant_key: 'auth:a', "),
        "line 1: default_policy must not set tenant_key; remove it",
    ),
    (
        DEFAULT + "tenant: []",
        "line 2: unknown field `tenant`, expected `default_policy` or `tenants`",
    ),
    (
        DEFAULT + "\n" + DEFAULT,
        "line 3: duplicate field `default_policy`; keep one of the two",
    ),
    (
        DEFAULT + "tenants: {a: 1}",
        "line 2: tenants: must be a list, its items begin with '- '",
    ),
    (
        tenant("# none"),
        "line 4: tenants[0] is missing tenant_key; add one, as auth:<id>",
    ),
    (
        tenant("tenant_key: acme"),
        "line 3: tenant_key 'acme' is not a canonical serving-path tenant key "
        "(expected auth:<id>, header:<id>, ip:<address>, or anonymous)",
    ),
    (
        tenant("tenant_key: ' auth:a'"),
        "line 3: tenant_key ' auth:a' must not have surrounding whitespace",
    ),
    (
        tenant("tenant_key: 7"),
        "line 3: tenants[0]: tenant_key: must be text; put it in quotes",
    ),
    (
        tenant("tenant_key: auth:a")
        + tenant("tenant_key: auth:a").partition("s:\n")[2],
        "line 6: duplicate tenant_key 'auth:a'; keep one of the two entries",
    ),
    (
        tenant("tenant_key: auth:a\n    tokens_per_minute: 2"),
        "line 5: tenants[0]: duplicate field `tokens_per_minute`; keep one of the two",
    ),
    (
        tenant("tenant_key: auth:a").replace("_minute: 1\n", "_minute: 0\n", 1),
        "line 4: policy 'auth:a': tokens_per_minute must be > 0",
    ),
    (
        model_rules(one_rule("'a b'")),
        "line 5: policy 'default': rule_id 'a b' must match [A-Za-z0-9._-]+",
    ),
    (
        model_rules(one_rule("a"), one_rule("b")),
        "line 6: policy 'default': rule 'b' matcher duplicates rule 'a'",
    ),
    (
        model_rules(one_rule("a"), one_rule("a", "{type: exact, value: n}")),
        "line 6: policy 'default': duplicate rule_id 'a'",
    ),
    (
        model_rules(one_rule(matcher="{type: regex, value: m}")),
        "line 5: default_policy.model_rules[0]: matcher: type must be exact or prefix, "
        "got 'regex'",
    ),
    (
        model_rules(one_rule(matcher="{type: exact, value: ' m'}")),
        "line 5: default_policy.model_rules[0]: matcher: value must not be empty or "
        "have surrounding whitespace",
    ),
    (
        model_rules(one_rule(matcher="{type: exact, value: ''}")),
        "line 5: default_policy.model_rules[0]: matcher: value must not be empty or "
        "have surrounding whitespace",
    ),
    (
        model_rules("{rule_id: a, tokens_per_minute: 1, requests_per_minute: 1}"),
        "line 5: default_policy.model_rules[0]: missing field `matcher`; add it",
    ),
    ("a: [", "line 1: not valid YAML: "),
    ("\tx: 1", "line 1: not valid YAML: "),
    (DEFAULT + "--- {}\n", "line 2: not valid YAML: but found another document"),
    ("x: \x00", "not valid YAML: "),
    ("<<: {a: 1}", "line 1: unknown field `<<`, expected "),
    ("? [a]\n: 1", "line 1: unknown field ``, expected "),
    ("{" * 2000, "not valid YAML: "),
]


@pytest.mark.parametrize(("text", "told"), FAULTS)
def test_fault_is_told_with_its_line(text: str, told: str) -> None:
    found = fault(text)
    assert found.startswith(told) if told.endswith(" ") else found == told


@pytest.mark.parametrize(
    "number", ["-1", "1.5", "1e3", "'5'", "true", "", "010", "1_0"]
)
def test_quota_is_a_whole_number(number: str) -> None:
    text = f"default_policy:\n  tokens_per_minute: {number}\n  requests_per_minute: 1\n"
    assert fault(text) == (
        "line 2: policy 'default': tokens_per_minute must be a whole number, "
        "such as 1000"
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
    monkeypatch.setattr(budget_rules, "MAX_ENTRIES", 50)
    listed = ", ".join([one_rule("r1").replace("{", "&r {", 1), *["*r"] * 60])
    many = [f"rule_id: r{n}, matcher: {{type: exact, value: m{n}}}" for n in range(60)]
    quota = "tokens_per_minute: 1, requests_per_minute: 1"
    text = model_rules(*(f"{{{one}, {quota}}}" for one in many))
    assert fault(text) == "line 54: more than 50 tenants and rules"
    assert "duplicate rule_id" in fault(model_rules().rstrip() + f" [{listed}]\n")


def test_file_that_is_too_long_is_not_parsed() -> None:
    text = "#" * (MAX_FILE_BYTES + 1)
    assert fault(text) == f"is longer than {MAX_FILE_BYTES} bytes"


# -- the flags -----------------------------------------------------------------------


def test_no_flag_is_no_budget(tmp_path: Path) -> None:
    assert settings_of().tenant_rules is None
    path = str(tmp_path / "none")
    assert settings_of(tenant_rate_limit_config=path).tenant_rules is None


def test_switch_without_a_file_is_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        settings_of(tenant_rate_limit_enabled=True)
    assert str(caught.value) == (
        "--tenant-rate-limit-enabled: is set but --tenant-rate-limit-config is not; "
        "name the file of the budgets"
    )


def test_file_is_read_and_its_faults_name_it(tmp_path: Path) -> None:
    path = tmp_path / "budgets.yaml"
    path.write_text(textwrap.dedent(WHOLE))
    given = {
        "tenant_rate_limit_enabled": True,
        "tenant_rate_limit_config": str(path),
    }
    found = settings_of(**given).tenant_rules
    assert found is not None and "auth:red" in found.tenants
    path.write_text("tenants: []\n")
    lead = f"--tenant-rate-limit-config: {path}: "
    with pytest.raises(SettingsError) as caught:
        settings_of(**given)
    assert str(caught.value) == lead + "line 1: missing field `default_policy`; add it"
    path.unlink()
    with pytest.raises(SettingsError) as caught:
        settings_of(**given)
    assert str(caught.value) == lead + (
        "cannot be read: No such file or directory; it must be a file the gateway's "
        "user may read"
    )
