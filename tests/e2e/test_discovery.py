"""A gateway whose workers a file names, or a Kubernetes cluster."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from tests.e2e.process import (
    HOST,
    MODEL,
    RunningGateway,
    eventually,
    simulated_workers,
)
from tests.fakes.kubernetes import KUBECONFIG, FakeKubernetes, pod


def write(path: Path, *urls: str) -> None:
    """The manifest of these workers, in place of the one that is there."""
    new = path.with_suffix(".new")
    workers = [{"url": url} for url in urls]
    new.write_text(json.dumps({"version": 1, "workers": workers}))
    new.rename(path)


def test_workers_come_and_go_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "workers.json"
    flags = (
        *("--discovery-provider", "file", "--discovery-file", str(file)),
        *("--drain-settle-secs", "1"),
    )
    with RunningGateway(tmp_path, *flags) as running:
        running.wait_until("/liveness")
        with simulated_workers(count=2) as engines:
            write(file, *engines.urls)
            eventually(lambda: running.get("/workers")["total"] == 2)
            assert running.chat().status_code == 200
            write(file, engines.urls[1])
            eventually(lambda: running.get("/workers")["total"] == 1)
            [worker] = running.get("/workers")["workers"]
            assert worker["url"] == engines.urls[1]
            assert worker["labels"]["smg.ai/discovery-provider"] == "file"
            file.write_text("{")
            eventually(lambda: "is invalid" in running.err)
            assert running.chat().status_code == 200
        assert running.stop() == 0
    assert "Traceback" not in running.err


def test_workers_come_and_go_with_the_pods(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    server = FakeKubernetes()
    config = tmp_path / "config"
    config.write_text(KUBECONFIG.format(url=server.url))
    flags = (
        *("--service-discovery", "--selector", "app=vllm", "tier=1"),
        *("--model-id-from", "label:model", "--drain-settle-secs", "1"),
    )
    environ = {"KUBECONFIG": str(config), "NO_PROXY": "*"}
    with simulated_workers() as engines, contextlib.closing(server):
        port = engines.urls[0].rpartition(":")[2]
        with RunningGateway(tmp_path, *flags, environ=environ) as running:
            running.wait_until("/liveness")
            labels = {"model": "renamed"}
            ports = {"smg.ai/worker-ports": port}
            server.apply(pod("a", HOST, labels=labels, annotations=ports))
            eventually(lambda: running.get("/workers")["total"] == 1)
            [worker] = running.get("/workers")["workers"]
            assert worker["url"] == engines.urls[0]
            assert worker["model_id"] == "renamed"
            assert worker["models"][0]["aliases"] == [MODEL]
            assert running.chat().status_code == 200
            server.delete("a")
            eventually(lambda: running.get("/workers")["total"] == 0)
            assert running.stop() == 0
    assert "Traceback" not in running.err
