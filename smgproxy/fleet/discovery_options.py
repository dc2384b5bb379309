"""What a user may tune about discovery: the provider, and what each of them needs."""

from __future__ import annotations

import dataclasses
import re

from smgproxy.core.options import flag, flags_of

_KUBERNETES = "Service Discovery (Kubernetes)"
_FILE = "Service Discovery (File)"
CHECK_INTERVAL_SECS = 30
# A label's or annotation's key, and a label's value, as Kubernetes has them.
_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def parse_label(text: str) -> str:
    """One ``key=value`` of a selector."""
    key, mark, value = text.partition("=")
    if not mark or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
        raise ValueError("must be labels as KEY=VALUE, such as app=vllm")
    return text


def parse_namespace(text: str) -> str:
    """A namespace's name."""
    if not _NAMESPACE.fullmatch(text):
        raise ValueError("must be the name of a namespace, such as inference")
    return text


def parse_model_id_from(text: str) -> str:
    """Which of a pod's metadata names its model."""
    kind, mark, key = text.partition(":")
    is_key = kind in ("label", "annotation") and mark and _KEY.fullmatch(key)
    if text != "namespace" and not is_key:
        raise ValueError("must be namespace, label:KEY or annotation:KEY")
    return text


@dataclasses.dataclass(frozen=True)
class DiscoveryOptions:
    """Where workers are found that nobody registered by hand."""

    service_discovery: bool = flag(
        False,
        "--service-discovery",
        _KUBERNETES,
        "find workers among the pods of a Kubernetes cluster; the same as "
        "--discovery-provider kubernetes",
    )
    discovery_provider: str | None = flag(
        None,
        "--discovery-provider",
        _KUBERNETES,
        "where workers are found; kubernetes needs smgproxy[kubernetes]",
        choices=("kubernetes", "file"),
    )
    selector: tuple[str, ...] = flag(
        (),
        "--selector",
        _KUBERNETES,
        "labels that a pod must have, all of them; without any no pod is a worker",
        metavar="KEY=VALUE",
        is_list=True,
        parse=parse_label,
    )
    service_discovery_port: int = flag(
        80,
        "--service-discovery-port",
        _KUBERNETES,
        "port of workers in pods without the annotation smg.ai/worker-ports",
        minimum=1,
        maximum=65535,
    )
    service_discovery_namespace: str | None = flag(
        None,
        "--service-discovery-namespace",
        _KUBERNETES,
        "namespace whose pods are looked at (default: all)",
        metavar="NAME",
        parse=parse_namespace,
    )
    model_id_from: str | None = flag(
        None,
        "--model-id-from",
        _KUBERNETES,
        "what of a pod names its model: namespace, label:KEY or annotation:KEY; the "
        "engine's own name becomes an alias (default: the engine)",
        metavar="SOURCE",
        parse=parse_model_id_from,
    )
    discovery_file: str | None = flag(
        None,
        "--discovery-file",
        _FILE,
        "JSON file that lists the workers; it may appear later, and change",
        metavar="PATH",
    )
    discovery_check_interval_secs: int | None = flag(
        None,
        "--discovery-check-interval-secs",
        _FILE,
        "seconds between two readings of a file that did not change "
        f"(default: {CHECK_INTERVAL_SECS})",
        minimum=1,
    )

    def __post_init__(self) -> None:
        if self.service_discovery and self.discovery_provider is not None:
            raise ValueError(
                "--service-discovery: cannot be combined with --discovery-provider; "
                "leave out one of the two"
            )
        if self.provider == "file" and not self.discovery_file:
            raise ValueError(
                "--discovery-provider: file needs --discovery-file, the path of a "
                "JSON file"
            )
        for field, described in flags_of(self):
            is_given = getattr(self, field.name) != field.default
            if is_given and field.name not in self._used():
                provider = "file" if described.group == _FILE else "kubernetes"
                raise ValueError(
                    f"{described.name}: has no effect without "
                    f"--discovery-provider {provider}"
                )

    @property
    def provider(self) -> str | None:
        """Who says which workers there are; None: nobody does."""
        return "kubernetes" if self.service_discovery else self.discovery_provider

    @property
    def check_interval_secs(self) -> int:
        """Seconds between two readings of an unchanged file."""
        return self.discovery_check_interval_secs or CHECK_INTERVAL_SECS

    def _used(self) -> set[str]:
        """The settings that have an effect with this provider."""
        group = {"kubernetes": _KUBERNETES, "file": _FILE}.get(self.provider or "")
        used = {field.name for field, one in flags_of(self) if one.group == group}
        return used | {"service_discovery", "discovery_provider"}
