from typing import Any

import pytest

from smgproxy.fleet.identity import (
    card_from,
    engine_by_endpoints,
    engine_by_owner,
    labels_from,
)
from tests.fakes.engine import models


@pytest.mark.parametrize(
    ("owner", "engine"),
    [("sglang", "sglang"), ("nvidia", "sglang"), ("vllm", "vllm"), ("acme", None)],
)
def test_the_owner_of_the_first_model_names_the_engine(
    owner: str, engine: str | None
) -> None:
    assert engine_by_owner(models(owner)) == engine


@pytest.mark.parametrize(
    "told", [None, {}, {"data": []}, {"data": {}}, {"data": [3]}, {"data": [{}]}]
)
def test_a_model_list_of_no_use_names_no_engine(told: dict[str, Any] | None) -> None:
    assert engine_by_owner(told) is None


@pytest.mark.parametrize(
    ("told", "version", "server_info", "engine"),
    [
        (models("acme"), {"version": "1"}, {"a": 1}, "vllm"),
        (None, {"version": "1"}, None, "vllm"),
        (models("acme"), None, {"a": 1}, "sglang"),
        (None, None, {}, "sglang"),
        (models("acme"), None, None, "generic"),
        (None, None, None, None),
        ({"data": []}, None, None, None),
    ],
)
def test_without_a_known_owner_the_endpoints_decide(
    told: Any, version: Any, server_info: Any, engine: str | None
) -> None:
    assert engine_by_endpoints(told, version, server_info) == engine


def test_labels_are_texts_and_info_endpoints_win_over_the_model_list() -> None:
    labels = labels_from(
        models("sglang", "m", root="/listed", max_model_len=4096),
        server_info={"tp_size": 2, "model_path": "/served", "is_embedding": False},
        model_info={"architectures": ["A", "B/C"], "is_generation": True, "zzz": 1},
    )
    assert labels == {
        "served_model_name": "m",
        "model_path": "/served",
        "max_model_len": "4096",
        "tp_size": "2",
        "is_embedding": "false",
        "architectures": '["A","B/C"]',
        "is_generation": "true",
    }


def test_a_vllm_worker_is_labelled_with_its_version() -> None:
    labels = labels_from(models("vllm", "m"), version={"version": "0.11"})
    assert labels == {"served_model_name": "m", "version": "0.11"}


@pytest.mark.parametrize(
    "value", [None, "", {}, [1], float("nan"), "\ud800", "a" * 9999]
)
def test_a_value_that_makes_no_label_is_left_out(value: object) -> None:
    assert labels_from(None, server_info={"version": value}) == {}


@pytest.mark.parametrize(
    ("labels", "model"),
    [
        ({"served_model_name": "a", "model_id": "b", "model_path": "c"}, "a"),
        ({"model_id": "b", "model_path": "c"}, "b"),
        ({"model_path": "c"}, "c"),
        ({}, "unknown"),
        # From a spec's labels, which may hold anything.
        ({"served_model_name": "a\n", "model_path": "c"}, "c"),
        ({"served_model_name": "\ud800"}, "unknown"),
        ({"served_model_name": "a" * 513, "model_id": "b"}, "b"),
    ],
)
def test_the_model_is_named_by_the_first_label_of_three(
    labels: dict[str, str], model: str
) -> None:
    assert card_from(labels)["id"] == model


def test_a_card_is_filled_from_labels() -> None:
    card = card_from(
        {
            "model_id": "m",
            "model_type": "llama",
            "architectures": '["A"]',
            "max_model_len": "4096",
            "tokenizer_path": "/tok",
        }
    )
    assert card == {
        "id": "m",
        "model_type": ["chat", "completions", "responses", "tools"],
        "hf_model_type": "llama",
        "architectures": ["A"],
        "context_length": 4096,
        "tokenizer_path": "/tok",
    }


@pytest.mark.parametrize("text", ["", "-1", "4k", "9" * 20, "\u0664"])
def test_a_length_that_is_no_number_makes_no_context_length(text: str) -> None:
    assert "context_length" not in card_from({"context_length": text})
