"""The thread and the official client against a fake API server."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kubernetes")

from smgproxy.fleet import kubernetes_api, pod_watch  # noqa: E402
from smgproxy.fleet.discovery import Wanted  # noqa: E402
from smgproxy.fleet.kubernetes_api import NoCluster, PodApi, connect  # noqa: E402
from smgproxy.fleet.pod_watch import Listener, PodWatch, lines  # noqa: E402
from smgproxy.fleet.pods import PodRules  # noqa: E402
from tests.fakes.kubernetes import KUBECONFIG, FakeKubernetes, pod  # noqa: E402


class Watched(Listener):
    """A watch of the server's pods; what it tells comes out in order."""

    def __init__(self, server: FakeKubernetes, folder: Path) -> None:
        self.server = server
        self.told: queue.Queue[tuple[Any, ...]] = queue.Queue()
        self._config = folder / "config"
        self._config.write_text(KUBECONFIG.format(url=server.url))
        self.watch: PodWatch | None = None

    def start(
        self, namespace: str | None = None, rules: PodRules = PodRules(8000)
    ) -> None:
        def api() -> PodApi:
            return PodApi(connect(), namespace, ("app=vllm", "tier=1"))

        self.watch = PodWatch(
            api, rules, self, lambda call, *about: call(*about), 0.001
        )
        self.watch.start()

    def next(self) -> tuple[Any, ...]:
        """What is told next."""
        return self.told.get(timeout=10)

    def on_pods(self, pods: dict[str, list[Wanted]]) -> None:
        self.told.put(("pods", {name: len(one) for name, one in pods.items()}))

    def on_pod(self, pod: str, workers: list[Wanted]) -> None:
        self.told.put((pod, [worker.spec.url for worker in workers]))

    def on_fault(self, pod: str, why: str) -> None:
        self.told.put(("fault", pod, why))

    def on_trouble(self, status: int, why: str) -> None:
        self.told.put(("trouble", status, why))

    def on_well(self) -> None:
        self.told.put(("well",))

    def on_no_cluster(self, why: str) -> None:
        self.told.put(("no cluster",))


@pytest.fixture
def server() -> Iterator[FakeKubernetes]:
    made = FakeKubernetes()
    yield made
    made.close()


@pytest.fixture
def it(
    server: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Watched]:
    watched = Watched(server, tmp_path)
    location = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(location, str(tmp_path / "config"))
    monkeypatch.setattr(pod_watch, "LONGEST_PAUSE_SECS", 0.01)
    yield watched
    if watched.watch is not None:
        watched.watch.stop()
        assert watched.watch.join(10)


def test_pods_are_listed_and_then_watched(it: Watched) -> None:
    it.server.apply(pod("a"))
    it.start()
    assert it.next() == ("pods", {"team/a": 1})
    it.server.apply(pod("b", "10.0.0.2"))
    assert it.next() == ("team/b", ["http://10.0.0.2:8000"])
    it.server.apply(pod("b", "10.0.0.2", ready=False))
    assert it.next() == ("team/b", [])
    it.server.delete("a")
    assert it.next() == ("team/a", [])
    assert it.server.watches == ["11"]


def test_the_server_is_asked_for_the_labels_with_the_token(it: Watched) -> None:
    it.start()
    it.next()
    path, query, key = it.server.asked[0]
    assert (path, key) == ("/api/v1/pods", "Bearer secret")
    assert query == {"labelSelector": "app=vllm,tier=1", "limit": "100"}


def test_one_namespace_is_asked_for_alone(it: Watched) -> None:
    it.start("team")
    it.next()
    assert it.server.asked[0][0] == "/api/v1/namespaces/team/pods"


def test_a_long_list_comes_in_pages(it: Watched) -> None:
    it.server.page_size = 2
    for name in "abcde":
        it.server.apply(pod(name))
    it.start()
    assert it.next() == ("pods", dict.fromkeys([f"team/{n}" for n in "abcde"], 1))
    assert it.server.lists == 3


def test_a_watch_that_breaks_goes_on_where_it_was(it: Watched) -> None:
    it.start()
    it.next()
    it.server.apply(pod("a"))
    it.next()
    it.server.bookmark()
    it.server.apply(pod("b"))
    it.next()
    it.server.break_watches()
    it.server.apply(pod("c", "10.0.0.3"))
    assert it.next() == ("team/c", ["http://10.0.0.3:8000"])
    assert it.server.watches == ["10", "13"]
    assert it.server.lists == 1


@pytest.mark.parametrize("is_told_by_event", [False, True])
def test_history_that_is_gone_makes_for_a_new_list(
    it: Watched, is_told_by_event: bool
) -> None:
    it.start()
    it.next()
    it.server.apply(pod("a"))
    it.next()  # so that the watch is under way
    it.server.pods["b"] = pod("b")
    if is_told_by_event:
        it.server.fail_watches(410, "too old")
    else:
        it.server.forget()
    assert it.next() == ("pods", {"team/a": 1, "team/b": 1})


def test_a_missing_permission_is_told_and_tried_again(it: Watched) -> None:
    it.server.refusal = (403, "pods is forbidden")
    it.start()
    assert it.next() == ("trouble", 403, "403 Forbidden")
    assert it.next() == ("trouble", 403, "403 Forbidden")
    it.server.apply(pod("a"))
    it.server.refusal = None
    while (told := it.next())[0] == "trouble":
        pass
    assert told == ("pods", {"team/a": 1})
    assert it.next() == ("well",)


def test_a_watch_that_is_refused_is_trouble_too(it: Watched) -> None:
    it.server.watch_refusal = (403, "no watch")
    it.start()
    assert it.next() == ("pods", {})
    assert it.next() == ("trouble", 403, "403 Forbidden")
    assert it.next() == ("well",)
    assert it.server.lists == 1


def test_a_server_that_is_down_is_trouble(it: Watched) -> None:
    it.server.close()
    it.start()
    kind, status, why = it.next()
    assert (kind, status) == ("trouble", 0)
    assert "refused" in why


def test_an_answer_that_is_not_understood_is_trouble(it: Watched) -> None:
    it.server.pods["a"] = {"metadata": []}
    it.start()
    kind, status, why = it.next()
    assert (kind, status) == ("trouble", 0)
    assert why.startswith("the API server's answer is not understood: Expected")


def test_a_fault_of_a_pod_is_told_once(it: Watched) -> None:
    bad = pod("a", annotations={"smg.ai/worker-ports": "x"})
    it.server.apply(bad)
    it.start()
    assert it.next()[:2] == ("fault", "team/a")
    assert it.next() == ("pods", {"team/a": 1})
    it.server.apply(bad)
    assert it.next() == ("team/a", ["http://10.0.0.1:8000"])


def test_more_pods_than_can_be_watched_are_trouble(
    it: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_watch, "MAX_WANTED", 2)
    for name in "abc":
        it.server.apply(pod(name))
    it.start()
    assert it.next() == (
        "trouble",
        0,
        "more than 2 pods have the labels of --selector",
    )


def test_without_a_cluster_nothing_more_comes(it: Watched, tmp_path: Path) -> None:
    (tmp_path / "config").unlink()
    with pytest.raises(NoCluster):
        connect()
    it.start()
    assert it.next() == ("no cluster",)
    assert it.watch is not None and it.watch.join(10)


def test_a_loop_that_is_gone_ends_the_thread(it: Watched) -> None:
    def hand_over(call: Any, *about: Any) -> None:
        raise RuntimeError("Event loop is closed")

    def api() -> PodApi:
        return PodApi(connect(), None, ("a=b",))

    watch = PodWatch(api, PodRules(), it, hand_over)
    watch.start()
    assert watch.join(10)


def test_stopping_interrupts_a_silent_watch(it: Watched) -> None:
    it.start()
    it.next()
    it.server.apply(pod("a"))
    it.next()  # so that the watch is under way
    assert it.watch is not None
    it.watch.stop()
    assert it.watch.join(5)


def test_lines_need_not_come_in_one_piece() -> None:
    assert list(lines([b"a", b"b\nc\n\nd", b"e\n", b"rest"], 10)) == [
        *(b"ab", b"c", b"", b"de")
    ]


def test_a_line_without_end_is_given_up() -> None:
    with pytest.raises(kubernetes_api.ApiFailed):
        list(lines([b"x" * 8, b"y" * 8], 10))
