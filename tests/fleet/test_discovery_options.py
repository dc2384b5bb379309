from __future__ import annotations

from typing import Any

import pytest

from smgproxy.fleet.discovery_options import (
    DiscoveryOptions,
    parse_label,
    parse_model_id_from,
    parse_namespace,
)


def test_nothing_is_discovered_unless_asked_for() -> None:
    assert DiscoveryOptions().provider is None


def test_service_discovery_is_another_word_for_kubernetes() -> None:
    assert DiscoveryOptions(service_discovery=True).provider == "kubernetes"
    options = DiscoveryOptions(discovery_provider="kubernetes", selector=("a=b",))
    assert options.provider == "kubernetes"


def test_an_unchanged_file_is_read_every_half_minute_unless_told_otherwise() -> None:
    file: dict[str, Any] = {"discovery_provider": "file", "discovery_file": "f"}
    assert DiscoveryOptions(**file).check_interval_secs == 30
    file["discovery_check_interval_secs"] = 2
    assert DiscoveryOptions(**file).check_interval_secs == 2


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"service_discovery": True, "discovery_provider": "file"},
            "--service-discovery: cannot be combined with --discovery-provider; "
            "leave out one of the two",
        ),
        (
            {"discovery_provider": "file"},
            "--discovery-provider: file needs --discovery-file, the path of a "
            "JSON file",
        ),
        (
            {"discovery_file": "f"},
            "--discovery-file: has no effect without --discovery-provider file",
        ),
        (
            {"service_discovery": True, "discovery_file": "f"},
            "--discovery-file: has no effect without --discovery-provider file",
        ),
        (
            {"selector": ("a=b",)},
            "--selector: has no effect without --discovery-provider kubernetes",
        ),
        (
            {
                "discovery_provider": "file",
                "discovery_file": "f",
                "service_discovery_port": 8000,
            },
            "--service-discovery-port: has no effect without "
            "--discovery-provider kubernetes",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(given: Any, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        DiscoveryOptions(**given)
    assert str(caught.value) == why


@pytest.mark.parametrize("text", ["app=vllm", "smg.ai/role=x-1", "app="])
def test_a_label_is_a_key_and_a_value(text: str) -> None:
    assert parse_label(text) == text


@pytest.mark.parametrize("text", ["app", "=x", "a b=c", "app=x,y=z", "a=b!", "app!=x"])
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_label(text)


@pytest.mark.parametrize("text", ["namespace", "label:a/b", "annotation:model"])
def test_a_model_may_be_named_by_a_pods_metadata(text: str) -> None:
    assert parse_model_id_from(text) == text


@pytest.mark.parametrize("text", ["", "name", "label", "label:", "annotation:a b"])
def test_other_places_for_a_models_name_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_model_id_from(text)


def test_a_namespace_is_named_as_kubernetes_names_them() -> None:
    assert parse_namespace("team-1") == "team-1"
    for text in ("", "Team", "a/b", "-a"):
        with pytest.raises(ValueError):
            parse_namespace(text)
