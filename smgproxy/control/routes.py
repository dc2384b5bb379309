"""Which path is answered by what, on the main port and on the port for probes.

What is not said to be public here is the control plane's.
"""

from __future__ import annotations

from collections.abc import Callable

from smgproxy.api.endpoints import Routes
from smgproxy.control.description import show_description
from smgproxy.control.engines import Engines
from smgproxy.control.health import Probes
from smgproxy.control.loads import Loads
from smgproxy.control.models import Models
from smgproxy.control.responses import show_response
from smgproxy.control.workers import Workers
from smgproxy.core.access import Access
from smgproxy.fleet.fleet import Fleet
from smgproxy.fleet.outside import Fetch
from smgproxy.fleet.registry import Registry


def add_control_routes(
    routes: Routes,
    fleet: Fleet,
    fetch: Fetch,
    is_draining: Callable[[], bool],
    aliases: dict[str, str],
) -> None:
    """Every route the gateway answers itself on its main port.

    ``aliases``: the canonical names of models by the others that clients may use.
    """
    _add_probes(routes, Probes(fleet.registry, is_draining))
    models = Models(fleet.registry)
    routes.add("GET", "/v1/models", models.list, Access.PUBLIC)
    routes.add("GET", "/v1/models/{model}", models.show, Access.PUBLIC)
    routes.add("GET", "/v1/responses/{response_id}", show_response, Access.SERVING)
    routes.add("GET", "/openapi.json", show_description, Access.PUBLIC)

    workers = Workers(fleet, aliases)
    routes.add("POST", "/workers", workers.add)
    routes.add("GET", "/workers", workers.list)
    routes.add("GET", "/workers/{worker_id}", workers.show)
    routes.add("PUT", "/workers/{worker_id}", workers.replace)
    routes.add("PATCH", "/workers/{worker_id}", workers.update)
    routes.add("DELETE", "/workers/{worker_id}", workers.remove)

    engines = Engines(fleet.registry, fetch)
    for path in ("/get_model_info", "/get_server_info", "/health_generate"):
        routes.add("GET", path, engines.relay, Access.PUBLIC)
    routes.add("POST", "/flush_cache", engines.flush_cache)

    loads = Loads(fleet.registry, aliases)
    routes.add("GET", "/loads", loads.show, Access.PUBLIC)
    routes.add("GET", "/get_loads", loads.show)


def probe_routes(registry: Registry, is_draining: Callable[[], bool]) -> Routes:
    """The routes of --health-check-port: the three probes and nothing else."""
    routes = Routes()
    _add_probes(routes, Probes(registry, is_draining))
    return routes


def _add_probes(routes: Routes, probes: Probes) -> None:
    routes.add("GET", "/health", probes.alive, Access.PUBLIC)
    routes.add("GET", "/liveness", probes.alive, Access.PUBLIC)
    routes.add("GET", "/readiness", probes.readiness, Access.PUBLIC)
