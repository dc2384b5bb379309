"""Pods of a Kubernetes cluster as workers that are wanted; pure.

Only the fields that are used are decoded. A pod counts when it is running, ready, not
being deleted and has an address.
"""

from __future__ import annotations

import dataclasses
import ipaddress

import msgspec

from smgproxy.fleet.discovery import PROVIDER_LABEL, Wanted, digest_of
from smgproxy.fleet.identity import is_model_id
from smgproxy.fleet.spec import WorkerSpec

PROVIDER = "kubernetes"
PORTS_ANNOTATION = "smg.ai/worker-ports"
NAME_LABEL = "smg.ai/pod-name"
UID_LABEL = "smg.ai/pod-uid"
MAX_PORTS = 16


class Metadata(msgspec.Struct, rename="camel"):
    """What every object of Kubernetes has."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Condition(msgspec.Struct):
    """One of the things that are true of a pod or not."""

    type: str = ""
    status: str = ""


class PodStatus(msgspec.Struct):
    """Where a pod is and how it is."""

    phase: str | None = None
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    conditions: list[Condition] | None = None


class Pod(msgspec.Struct):
    """A pod, as far as it matters here."""

    metadata: Metadata
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def key(self) -> str:
        """Its name in the cluster."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_serving(self) -> bool:
        """Whether requests may go to it."""
        status = self.status
        return (
            self.metadata.deletion_timestamp is None
            and status.phase == "Running"
            and any(
                one.type == "Ready" and one.status == "True"
                for one in status.conditions or ()
            )
        )


@dataclasses.dataclass(frozen=True)
class PodRules:
    """How pods become workers. ``port`` is for pods that name none themselves;
    ``model_id_from`` is as parse_model_id_from() takes it."""

    port: int = 80
    model_id_from: str | None = None
    api_key: str | None = None


def workers_of(pod: Pod, rules: PodRules) -> tuple[list[Wanted], str]:
    """The workers of a pod, one for each port, and what is wrong with it, if anything.

    What is wrong never makes a worker of a serving pod disappear: its annotation of
    ports is then as if it were not there.
    """
    host = _host(pod)
    if not host:
        return [], ""
    meta = pod.metadata
    fault = ""
    ports = [rules.port]
    given = (meta.annotations or {}).get(PORTS_ANNOTATION)
    if given is not None:
        found = _ports(given)
        ports = found or ports
        if not found:
            fault = f"{PORTS_ANNOTATION} holds no ports, {rules.port} is taken"
    labels = {PROVIDER_LABEL: PROVIDER, NAME_LABEL: meta.name, UID_LABEL: meta.uid}
    model = _model_id(meta, rules.model_id_from)
    if model is not None:
        labels["served_model_name"] = model
    return [_wanted(pod, host, port, labels, rules) for port in ports], fault


def _host(pod: Pod) -> str:
    """Its address as it stands in a URL; empty while it serves nobody."""
    if not pod.is_serving or not pod.status.pod_ip:
        return ""
    try:
        address = ipaddress.ip_address(pod.status.pod_ip)
    except ValueError:
        return ""
    return f"[{address}]" if address.version == 6 else str(address)


def _ports(text: str) -> list[int]:
    """The ports of a list with commas, each once; none when any is wrong."""
    parts = [part.strip() for part in text.split(",", MAX_PORTS)]
    is_right = len(parts) <= MAX_PORTS and all(
        part.isascii() and part.isdigit() and len(part) <= 5 for part in parts
    )
    ports = list(dict.fromkeys(map(int, parts))) if is_right else []
    return ports if all(0 < port < 1 << 16 for port in ports) else []


def _model_id(meta: Metadata, source: str | None) -> str | None:
    kind, _, key = (source or "").partition(":")
    found: str | None = None
    if kind == "namespace":
        found = meta.namespace
    elif kind == "label":
        found = (meta.labels or {}).get(key)
    elif kind == "annotation":
        found = (meta.annotations or {}).get(key)
    return found if found and is_model_id(found) else None


def _wanted(
    pod: Pod, host: str, port: int, labels: dict[str, str], rules: PodRules
) -> Wanted:
    url = f"http://{host}:{port}"
    spec = WorkerSpec(url, api_key=rules.api_key, labels=labels, keeps_engine_name=True)
    # A pod that comes again, with the same name or address, has another uid: it is
    # another worker.
    key = f"{pod.key} {pod.metadata.uid} {url}"
    return Wanted(key, spec, digest_of({"url": url, "labels": labels}))
