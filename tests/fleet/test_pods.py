from __future__ import annotations

from typing import Any

import msgspec
import pytest
import ujson

from smgproxy.fleet.discovery import Wanted
from smgproxy.fleet.pods import MAX_PORTS, Pod, PodRules, workers_of
from tests.fakes.kubernetes import pod

RULES = PodRules(port=8000)


def found(one: dict[str, Any], rules: PodRules = RULES) -> tuple[list[Wanted], str]:
    return workers_of(msgspec.json.decode(ujson.dumps(one), type=Pod), rules)


def urls(one: dict[str, Any], rules: PodRules = RULES) -> list[str]:
    return [worker.spec.url for worker in found(one, rules)[0]]


def test_a_pod_that_serves_is_a_worker_at_the_port_of_the_flag() -> None:
    assert urls(pod()) == ["http://10.0.0.1:8000"]


@pytest.mark.parametrize(
    "one",
    [
        pod(ready=False),
        pod(phase="Pending"),
        pod(phase="Succeeded"),
        pod(deleted=True),
        pod(ip=""),
        pod(ip="nonsense/"),
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "a"}, "status": {"phase": "Running", "podIP": None}},
    ],
)
def test_other_pods_are_none(one: dict[str, Any]) -> None:
    assert found(one) == ([], "")


def test_an_address_of_version_6_stands_in_brackets() -> None:
    assert urls(pod(ip="fd00::7")) == ["http://[fd00::7]:8000"]


def test_a_pod_may_name_its_ports() -> None:
    annotations = {"smg.ai/worker-ports": "9001, 9002,9001"}
    assert urls(pod(annotations=annotations)) == [
        "http://10.0.0.1:9001",
        "http://10.0.0.1:9002",
    ]


@pytest.mark.parametrize(
    "ports", ["", "x", "80,", "0", "65536", "-1", "\u0661", "80;81", "1," * MAX_PORTS]
)
def test_ports_that_are_none_fall_back_to_the_flags_with_a_word(ports: str) -> None:
    workers, fault = found(pod(annotations={"smg.ai/worker-ports": ports}))
    assert [worker.spec.url for worker in workers] == ["http://10.0.0.1:8000"]
    assert fault == "smg.ai/worker-ports holds no ports, 8000 is taken"


def test_labels_tell_which_pod_it_is() -> None:
    [worker] = found(pod("x", uid="u"))[0]
    assert worker.spec.labels == {
        "smg.ai/discovery-provider": "kubernetes",
        "smg.ai/pod-name": "x",
        "smg.ai/pod-uid": "u",
    }


@pytest.mark.parametrize(
    ("source", "model"),
    [
        ("namespace", "team"),
        ("label:app", "vllm"),
        ("annotation:model", "m/1"),
        ("label:nothing", None),
        ("annotation:bad", None),
        (None, None),
    ],
)
def test_a_model_may_be_named_by_the_pod(source: str | None, model: str | None) -> None:
    one = pod(annotations={"model": "m/1", "bad": "a\nb"})
    [worker] = found(one, PodRules(model_id_from=source))[0]
    assert worker.spec.labels.get("served_model_name") == model
    assert worker.spec.keeps_engine_name


def test_a_pod_that_comes_again_is_another_worker() -> None:
    first, second = (found(pod(uid=uid))[0][0] for uid in ("1", "2"))
    assert first.id != second.id
    assert first.digest != second.digest


def test_a_change_that_matters_to_nobody_changes_nothing() -> None:
    one = pod()
    one["metadata"]["resourceVersion"] = "77"
    assert found(one) == found(pod())


def test_workers_are_asked_with_the_gateways_key() -> None:
    [worker] = found(pod(), PodRules(api_key="k"))[0]
    assert worker.spec.api_key == "k"
