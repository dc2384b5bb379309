"""The composition root: builds the rooms, hands each what it needs, starts and stops.

Nothing here decides anything about a request.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, MutableMapping
from typing import Any

from smgproxy import __version__
from smgproxy.admission.budgets import Budgets
from smgproxy.admission.classes import CLASS_NAMES
from smgproxy.admission.tenants import Callers
from smgproxy.api.bodies import BodyReader
from smgproxy.api.endpoints import FORMS, INFERENCE, Routes
from smgproxy.banner import Facts, banner
from smgproxy.control.metrics import metrics_routes
from smgproxy.control.routes import add_control_routes, probe_routes
from smgproxy.core.access import Access
from smgproxy.core.clock import Sweeper, monotonic
from smgproxy.discovery import Discovery
from smgproxy.dispatch.account import Account
from smgproxy.dispatch.admit import open_gate
from smgproxy.dispatch.fallback import Fallbacks
from smgproxy.dispatch.forward import Forwarder
from smgproxy.dispatch.headers import SERVED_MODEL
from smgproxy.dispatch.keepalive import KeepAlives
from smgproxy.dispatch.realtime_routes import RealtimeRoutes
from smgproxy.dispatch.serve import Dispatcher, SideDispatcher
from smgproxy.downstream.listener import Listener
from smgproxy.drain import Drain, DrainTimes
from smgproxy.fleet.fleet import Fleet
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.shedding import Shedding
from smgproxy.places import address_of, bound, log_outputs, sockets
from smgproxy.probes import ProbeThread
from smgproxy.routing.labelled import REALTIME
from smgproxy.routing.router import Router
from smgproxy.settings import Settings
from smgproxy.simulated.launch import SimulatedWorkers
from smgproxy.system.memory import settle_memory
from smgproxy.system.notify import Notifier, watchdog_interval_secs
from smgproxy.system.sockets import listen_fds
from smgproxy.telemetry.families import Family
from smgproxy.telemetry.fleet_metrics import overload_families
from smgproxy.telemetry.logs import set_up_logs
from smgproxy.telemetry.metrics import Exposition, Sources
from smgproxy.telemetry.requestlog import RequestLog
from smgproxy.telemetry.routing_metrics import PolicyFamilies, fallback_families
from smgproxy.telemetry.stats import (
    DURATION_BOUNDS,
    Histogram,
    HttpStats,
    LoopStats,
    RouterStats,
)
from smgproxy.tls.certificates import TlsFileError
from smgproxy.tls.live import LiveCredentials
from smgproxy.upstream.calls import Upstream

_log = logging.getLogger("smgproxy.gateway")
KEEPALIVE_SWEEP_SECS = 0.25
LOG_FLUSH_SECS = 0.5
LOOP_TICK_SECS = 0.1
ROUTER_SWEEP_SECS = 0.25  # a slice of the policies' upkeep each
# What clients may choose in their TLS handshake, the best one first.
ALPN = ("h2", "http/1.1")


class Gateway:
    """Every room of one process, wired together."""

    def __init__(self, settings: Settings, environ: MutableMapping[str, str]) -> None:
        self.settings = settings
        self._notifier = Notifier.from_environ(environ)
        self._watchdog_secs = watchdog_interval_secs(environ)
        self._passed = listen_fds(environ)
        self._loop = loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sweepers: list[Sweeper] = []
        self._simulated: SimulatedWorkers | None = None
        self._probes: ProbeThread | None = None
        self._drain: Drain | None = None
        self._undo_logs: Callable[[], None] | None = None
        self._stopped: asyncio.Future[int] = loop.create_future()

        self.registry = Registry()
        self._tls = LiveCredentials(settings.tls, ALPN)
        self.shedding = Shedding(
            settings.overload.is_asked_for, settings.fleet.load_monitor_interval
        )
        self.upstream = Upstream(loop, self._tls.worker, self.shedding)
        telemetry = settings.telemetry
        bounds = telemetry.prometheus_duration_buckets or DURATION_BOUNDS
        self.http, self.router_stats = HttpStats(bounds), RouterStats(bounds)
        self.loop_stats = LoopStats(LOOP_TICK_SECS)
        # Seconds in the scheduler's queues, by class.
        self._waits = [Histogram(bounds) for _ in CLASS_NAMES]
        self._log_outputs = log_outputs(telemetry)
        self.request_log = RequestLog(
            telemetry.log_level, telemetry.log_json, self._log_outputs
        )
        self.router = Router(
            self.registry, settings.routing, settings.policies, self.shedding
        )
        self.fleet = Fleet(
            self.registry,
            settings.fleet,
            self.upstream.fetch,
            self._spawn,
            self.upstream.forget,
            sleep=asyncio.sleep,
            http_pool=settings.upstream.http_pool(),
            breaker=settings.breaker.settings(),
            limits=settings.overload.limits,
            needs_loads=lambda: self.router.reads_loads,
        )
        self._discovery = Discovery(
            settings.discovery,
            self.fleet,
            asyncio.sleep,
            loop.call_soon_threadsafe,
            bounds,
        )
        rules = settings.tenant_rules
        self.budgets = None if rules is None else Budgets(rules, monotonic())
        chains = settings.fallbacks.chains()
        self._fallbacks = Fallbacks(chains, self.router) if chains else None
        reader = BodyReader(settings.aliases.canonical_names())
        self._forwarder = Forwarder(
            reader,
            self.router,
            self.upstream,
            settings.dispatch,
            settings.retries,
            self.router_stats,
            loop,
            self.budgets,
            settings.policies.routing_key_override,
            self._fallbacks,
        )
        self.realtime = RealtimeRoutes(
            reader.canonical,
            self.registry,
            self.upstream,
            self._tls.worker,
            settings.realtime,
            self._forwarder.answers,
            self._forwarder.large_bodies,
            self.router_stats,
            settings.dispatch.max_payload_size,
            loop,
            self.budgets,
            self._fallbacks,
        )
        self.dispatcher = Dispatcher(
            self._routes(),
            self._forwarder,
            Account(self.http, self.request_log),
            settings.dispatch,
            loop,
            self._callers(),
            settings.cors.rules((SERVED_MODEL,) if chains else ()),
        )
        self.listener = Listener(
            settings.clients, settings.heads, self.dispatcher.on_exchange
        )
        side = SideDispatcher(metrics_routes(self._exposition()), loop)
        self._metrics = Listener(settings.clients, settings.heads, side.on_exchange)

    @property
    def keepalives(self) -> KeepAlives:
        """The event streams that are being relayed."""
        return self._forwarder.answers.keepalives

    # -- life ------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and begin to register workers. Raises StartError."""
        settings = self.settings
        self._undo_logs = set_up_logs(settings.telemetry, self._log_outputs)
        for notice in settings.notices:
            _log.warning("%s", notice)
        # Only now, as it may have something to log.
        self.dispatcher.gate = open_gate(
            settings.limiter,
            settings.scheduler,
            self.registry,
            self._waits,
            self._loop,
        )
        for warning in self._tls.load():
            _log.warning("%s", warning)
        clients, metrics = sockets(settings, self._passed)
        urls = settings.server.worker_urls
        if settings.simulated is not None:
            self._simulated = SimulatedWorkers(settings.simulated)
            simulated = tuple(await self._simulated.start())
            urls = (*urls, *simulated)
        else:
            simulated = ()
        await self._metrics.start([metrics])
        await self.listener.start(
            clients, self._tls.server, settings.tls.tls_handshake_timeout_secs
        )
        keys = settings.keys
        shown = None if keys is None or not keys.for_workers else keys.for_workers.text
        labels = {url: {REALTIME: "true"} for url in simulated}
        self.fleet.start(urls, shown, labels)
        self._discovery.start(self._spawn, shown)
        self._start_sweepers()
        self._start_probes()
        scheme = "https" if settings.tls.serves_https else "http"
        addresses = [address_of(sock, scheme) for sock in clients]
        passed = tuple(addresses) if self._passed else ()
        gate = self.dispatcher.gate
        facts = Facts(simulated, passed, gate is not None and gate.has_scheduler)
        text = banner(settings, facts, is_coloured=_is_terminal())
        print(text, end="", flush=True)
        self._notifier.ready()
        self._notifier.status("serving")
        settle_memory()

    async def serve(self) -> int:
        """Run until a signal has been obeyed; the exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.stop, number)
        self._loop.add_signal_handler(signal.SIGHUP, self.reload)
        return await self._stopped

    def reload(self) -> None:
        """Read the certificates again: for connections that begin from now on."""
        if self._drain is not None:
            return  # a READY=1 behind STOPPING=1 would be a lie
        self._notifier.reloading()
        try:
            for warning in self._tls.load():
                _log.warning("%s", warning)
        except TlsFileError as error:
            _log.error("reload failed, what is in use stays in use: %s", error)
        else:
            if self._tls.server is not None:
                self.listener.use_tls(self._tls.server)
            _log.info("reloaded: %s", self._tls.described())
        self._notifier.ready()

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Begin to drain; called again, end at once."""
        if self._drain is not None:
            self._drain.hurry()
            return
        _log.info(
            "Received %s signal, starting graceful shutdown",
            "interrupt" if number == signal.SIGINT else "terminate",
        )
        server = self.settings.server
        self._drain = Drain(
            self.dispatcher,
            self.listener,
            DrainTimes(
                server.shutdown_grace_period_secs,
                self.settings.fleet.drain_settle_secs,
                has_probe_port=server.health_check_port is not None,
            ),
        )
        self.realtime.refuse()
        self._notifier.stopping()
        self._notifier.status("draining")
        self._spawn(self._stop(self._drain, 130 if number == signal.SIGINT else 0))

    async def _stop(self, drain: Drain, status: int) -> None:
        try:
            await drain.run()
        finally:
            if not self._stopped.done():
                self._stopped.set_result(status)

    async def close(self) -> None:
        """Let go of everything; safe whatever was started."""
        for sweeper in self._sweepers:
            sweeper.close()
        self._discovery.close()
        self.fleet.close()
        if self.dispatcher.gate is not None:
            self.dispatcher.gate.close()
        self.listener.close()
        self._metrics.close()
        self.upstream.close()
        self.realtime.close()
        if self._probes is not None:
            self._probes.stop()
        if self._simulated is not None:
            await self._simulated.stop()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.request_log.flush()
        if self._undo_logs is not None:
            self._undo_logs()
        self._log_outputs.close()
        self._notifier.close()

    # -- wiring ----------------------------------------------------------------------

    def _routes(self) -> Routes:
        routes = Routes()
        for endpoint in (*INFERENCE, *FORMS):
            routes.add("POST", endpoint.path, endpoint, Access.SERVING)
        self.realtime.add_to(routes)
        ours = (self.fleet, self.upstream.fetch, self._is_draining)
        add_control_routes(routes, *ours, self.settings.aliases.canonical_names())
        return routes

    def _callers(self) -> Callers | None:
        """Who identifies callers; None when no key and no tenant is asked for."""
        settings = self.settings
        needs_tenants = (
            self.budgets is not None or settings.scheduler.priority_scheduler_enabled
        )
        if settings.keys is None and settings.tenant_header is None:
            if not needs_tenants:
                return None
        return Callers(settings.keys, settings.tenant_header)

    def _is_draining(self) -> bool:
        return self._drain is not None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _start_probes(self) -> None:
        server = self.settings.server
        if server.health_check_port is not None:
            sock = bound("--health-check-port", server.host, server.health_check_port)
            routes = probe_routes(self.registry, self._is_draining)
            self._probes = ProbeThread(sock, routes)
            self._probes.start()

    def _start_sweepers(self) -> None:
        later = self._loop.call_later
        keepalives = self._forwarder.answers.keepalives
        self._sweepers = [
            Sweeper(later, KEEPALIVE_SWEEP_SECS, keepalives.sweep),
            Sweeper(later, KEEPALIVE_SWEEP_SECS, self.realtime.sweep),
            Sweeper(later, LOG_FLUSH_SECS, lambda now: self.request_log.flush()),
            Sweeper(later, LOOP_TICK_SECS, self.loop_stats.tick),
            Sweeper(later, ROUTER_SWEEP_SECS, lambda now: self.router.sweep(now)),
        ]
        if self._watchdog_secs is not None:
            beat = Sweeper(
                later, self._watchdog_secs, lambda now: self._notifier.watchdog()
            )
            self._sweepers.append(beat)

    def _exposition(self) -> Exposition:
        sources = Sources(
            self.http,
            self.router_stats,
            self.loop_stats,
            self.listener,
            self.registry.all,
            self._ages,
            self.upstream.counts,
            lambda: self.upstream.resends,
            lambda: self._log_outputs.lost,
            {} if self.budgets is None else self.budgets.counts,
            [
                self._gate_families,
                lambda: overload_families(self.router_stats, self.shedding.fallbacks),
                PolicyFamilies(self.router.policies).collect,
                self._discovery.families,
                self.realtime.stats.families,
                lambda: fallback_families(
                    {} if self._fallbacks is None else self._fallbacks.counts
                ),
            ],
        )
        return Exposition(sources, __version__)

    def _gate_families(self) -> Iterable[Family]:
        gate = self.dispatcher.gate
        return () if gate is None else gate.families()

    def _ages(self) -> list[float]:
        now = monotonic()
        return [now - exchange.opened_at for exchange in self.dispatcher.running]


def _is_terminal() -> bool:
    return sys.stdout.isatty()
