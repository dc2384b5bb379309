from __future__ import annotations

import logging

import pytest

from smgproxy.fleet.kubernetes_discovery import KubernetesDiscovery
from tests.fleet.discovered import A, B, Stage, want


class Cluster(Stage):
    """A fleet that follows what a watch of pods tells."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(patch)
        self.clock.stand_in(patch, "smgproxy.fleet.kubernetes_discovery")
        self.pods = KubernetesDiscovery(
            self.reconciler, self.stats, self.background.sleep
        )
        self.background.spawn(self.pods.watch())


@pytest.fixture
def it(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_workers_follow_the_pods_within_a_second(it: Cluster) -> None:
    it.pods.on_pods({"a": [want(A)], "idle": []})
    assert it.urls == []
    it.clock.advance(1)
    assert it.ready == [A]
    it.pods.on_pod("b", [want(B)])
    it.pods.on_pod("a", [])
    it.clock.advance(1)
    assert it.ready == [B]
    it.clock.advance(6)
    assert it.urls == [B]


def test_a_burst_of_changes_is_one_pass(it: Cluster) -> None:
    it.pods.on_pods({})
    it.pods.on_pod("a", [want(A)])
    it.pods.on_pod("b", [want(B)])
    it.clock.advance(1)
    assert len(it.passes) == 1


def test_nothing_is_removed_before_the_pods_are_known(it: Cluster) -> None:
    it.pods.on_trouble(403, "403 Forbidden")
    it.clock.advance(300)
    assert it.passes == []


def test_a_pod_with_a_new_uid_at_the_same_address_replaces_the_worker(
    it: Cluster,
) -> None:
    it.pods.on_pods({"a": [want(A, key="uid-1")]})
    it.clock.advance(1)
    [before] = it.registry.all()
    it.pods.on_pod("a", [want(A, key="uid-2")])
    it.clock.advance(8)
    [after] = it.registry.all()
    assert (after.url, after.is_ready) == (A, True)
    assert after.id != before.id


def test_heartbeats_cause_no_pass_but_each_minute_has_one(it: Cluster) -> None:
    it.pods.on_pods({"a": [want(A)]})
    it.clock.advance(1)
    it.fleet.remove(it.registry.all()[0].id)
    for _ in range(58):
        it.pods.on_pod("a", [want(A)])
        it.clock.advance(1)
    assert it.urls == []
    it.clock.advance(3)
    assert it.ready == [A]


def test_trouble_keeps_the_workers_and_is_logged_once(
    it: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    it.pods.on_pods({"a": [want(A)]})
    it.clock.advance(1)
    for _ in range(3):
        it.pods.on_trouble(403, "403 Forbidden")
    it.clock.advance(100)
    assert it.ready == [A]
    assert it.stats.snapshot_errors["unreadable"] == 3
    assert caplog.messages == [
        "pods of Kubernetes cannot be watched: 403 Forbidden; the service account "
        "must be allowed to list and watch pods"
    ]
    with caplog.at_level(logging.INFO):
        it.pods.on_well()
    assert caplog.messages[1:] == ["pods of Kubernetes are watched again"]
    it.pods.on_trouble(0, "connection refused")
    assert caplog.records[-1].levelname == "WARNING"


def test_pods_that_never_served_leave_no_trace(it: Cluster) -> None:
    it.pods.on_pods({f"pod-{n}": [] for n in range(9)})
    it.pods.on_pod("new", [])
    assert it.pods._pods == {}


def test_without_a_cluster_the_gateway_goes_on(
    it: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    it.pods.on_no_cluster("no file")
    it.pods.on_fault("a", "bad ports")
    assert [one.levelname for one in caplog.records] == ["ERROR", "WARNING"]
