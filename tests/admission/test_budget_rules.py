"""Policies of tenants, rules of models, and the flags that ask for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from smgproxy.admission.budget_rules import ModelRule, Policy, Quota
from smgproxy.settings import SettingsError
from tests.test_settings import settings_of

DEFAULT = "default_policy: {tokens_per_minute: 100, requests_per_minute: 10}\n"


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
    path.write_text(DEFAULT)
    given = {
        "tenant_rate_limit_enabled": True,
        "tenant_rate_limit_config": str(path),
    }
    found = settings_of(**given).tenant_rules
    assert found is not None and found.default.quota == Quota(100, 10)
    path.write_text("tenants: []\n")
    lead = f"--tenant-rate-limit-config: {path}:"
    with pytest.raises(SettingsError) as caught:
        settings_of(**given)
    assert str(caught.value) == (
        lead + "1: default_policy is missing; needed are default_policy"
    )
    path.unlink()
    with pytest.raises(SettingsError) as caught:
        settings_of(**given)
    assert str(caught.value) == (
        lead + " cannot be read: No such file or directory; "
        "give the path of a readable YAML file"
    )
