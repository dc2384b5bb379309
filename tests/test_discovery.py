from __future__ import annotations

import sys
from typing import Any

import pytest

from smgproxy.discovery import Discovery
from smgproxy.fleet.discovery_options import DiscoveryOptions
from smgproxy.places import StartError
from tests.fakes.background import FakeBackground
from tests.fakes.clock import FakeClock
from tests.fleet.discovered import Stage
from tests.telemetry.samples import lines


def discovery(stage: Stage, **options: Any) -> Discovery:
    return Discovery(
        DiscoveryOptions(**options),
        stage.fleet,
        stage.background.sleep,
        lambda call, *about: call(*about),
    )


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_without_a_provider_nothing_runs_and_nothing_is_counted(stage: Stage) -> None:
    it = discovery(stage)
    it.start(stage.background.spawn, None)
    assert stage.background.tasks == []
    assert list(it.families()) == []
    it.close()


def test_a_file_is_watched_until_closed(stage: Stage) -> None:
    it = discovery(stage, discovery_provider="file", discovery_file="/nowhere")
    it.start(stage.background.spawn, None)
    assert stage.background.running == 1
    assert all('source="file"' in line for line in lines(it.families()))
    it.close()
    assert stage.background.running == 0


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"service_discovery": True}, "--service-discovery"),
        (
            {"discovery_provider": "kubernetes"},
            "--discovery-provider kubernetes",
        ),
    ],
)
def test_a_missing_client_is_one_line_that_names_the_extra(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, options: Any, name: str
) -> None:
    for module in ("kubernetes", "kubernetes.client"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(StartError) as caught:
        discovery(stage, **options)
    text = str(caught.value)
    assert text.startswith(f"{name}: the Kubernetes client is not installed (")
    assert text.endswith("); pip install 'smgproxy[kubernetes]'")
    assert "\n" not in text


def test_without_a_selector_no_pod_is_taken(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smgproxy.discovery.load", lambda: None)
    background = FakeBackground(FakeClock())
    it = discovery(Stage(monkeypatch), service_discovery=True)
    it.start(background.spawn, None)
    assert background.tasks == []
    assert caplog.messages == [
        "--selector is not given, so no pod is taken for a worker"
    ]
    it.close()
