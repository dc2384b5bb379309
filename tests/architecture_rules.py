"""The rules of the house: who may import, wait, start tasks, catch and print.

Read from the source with `ast`; nothing of it is imported. Every rule is a
function from the modules to the places that break it: test_architecture.py
applies them to the house, test_architecture_rules.py to a few lines of wrong code.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "smgproxy"
MAX_LINES = 400

# A room (a folder), or a module at the top, and what it may import of ours.
# Of itself, and of the package (`__version__`), everyone may.
ROOMS: dict[str, set[str]] = {
    "core": set(),
    "system": set(),
    "wire": {"core"},
    "tls": {"core"},
    "telemetry": {"core"},
    "fleet": {"core"},
    "admission": {"core"},
    "api": {"core", "wire"},
    "generation": {"core", "wire"},
    "routing": {"core", "fleet"},
    "upstream": {"core", "wire", "tls", "fleet", "pb"},
    "downstream": {"core", "wire", "tls"},
    "simulated": {"core", "wire"},
    "dispatch": {
        *("core", "wire", "api", "admission", "routing", "fleet"),
        *("generation", "upstream", "telemetry"),
    },
    "control": {"core", "wire", "api", "admission", "fleet", "upstream", "telemetry"},
    "pb": set(),
}
TOP: dict[str, set[str]] = {
    "__init__": set(),
    "settings": {*ROOMS, "server_options"},
    "server_options": {"core", "fleet"},
    "flags_unsupported": set(),
    "arguments": {"core", "settings", "server_options", "flags_unsupported"},
    "usage": {"settings", "flags_unsupported"},
    "banner": {"settings"},
    "drain": {"core", "dispatch", "downstream"},
    "probes": {"api", "wire", "dispatch", "downstream"},
    "places": {"downstream", "settings", "server_options", "system", "telemetry"},
    "discovery": {"core", "fleet", "telemetry", "places"},
    "gateway": {
        *(*ROOMS, "settings", "banner", "discovery", "drain", "places", "probes"),
    },
    "run": {"gateway", "places", "settings", "simulated", "system", "tls"},
    "cli": {"api", "settings", "run", "arguments", "usage"},
    "__main__": {"cli"},
}
ARROWS = ROOMS | TOP

# Places below: a path from smgproxy/ on, or a room with a slash behind it.
ASYNCIO_PLACES = (
    *(
        "gateway.py",
        "run.py",
        "drain.py",
        "probes.py",
        "tls/connection.py",
        "downstream/",
        "upstream/",
        "dispatch/",
        "control/",
        "simulated/",
    ),
    # An exchange and a connection start and await nothing; they name types of slots.
    *("core/flow.py", "core/exchange.py", "core/connection.py"),
    *("fleet/health.py", "fleet/loads.py", "fleet/discovery.py"),
)
TASK_PLACES = ("dispatch/serve.py", "gateway.py", "simulated/")
CATCH_ALL_PLACES = ("dispatch/serve.py", "gateway.py")
PRINT_PLACES = ("cli.py", "run.py", "gateway.py", "simulated/__main__.py")
ENVIRONMENT_PLACES = ("cli.py", "__main__.py", "simulated/__main__.py")

STARTS_TASKS = {"create_task", "ensure_future", "Task", "TaskGroup"}
ASYNCIO_QUEUES = {"Queue", "LifoQueue", "PriorityQueue", "Event"}
CATCHES_ALL = {"Exception", "BaseException"}


@dataclass(frozen=True)
class Module:
    """One source file; `place` is its path from smgproxy/ on."""

    place: str
    source: str

    @property
    def room(self) -> str:
        return self.place.split("/")[0].removesuffix(".py")

    @property
    def name(self) -> str:
        dotted = f"{PACKAGE}/{self.place}".removesuffix(".py").replace("/", ".")
        return dotted.removesuffix(".__init__")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.source, self.place)))

    def is_in(self, places: tuple[str, ...]) -> bool:
        return any(
            self.place.startswith(each) if each.endswith("/") else self.place == each
            for each in places
        )

    def imports(self, at_run_time: bool = False) -> Iterator[tuple[int, str]]:
        """Every name imported, with its line: `from a.b import c` gives a.b.c."""
        skipped = self._for_types_only() if at_run_time else set()
        for node in self.nodes:
            if node in skipped:
                continue
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield node.lineno, alias.name
            elif isinstance(node, ast.ImportFrom):
                source = self._source_of(node)
                for alias in node.names:
                    yield node.lineno, f"{source}.{alias.name}"

    def _source_of(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        is_package = self.place.endswith("__init__.py")
        parents = self.name.split(".")
        kept = parents[: len(parents) - node.level + is_package]
        return ".".join([*kept, *filter(None, [node.module])])

    def _for_types_only(self) -> set[ast.AST]:
        return {
            inner
            for node in self.nodes
            if isinstance(node, ast.If) and last_name(node.test) == "TYPE_CHECKING"
            for statement in node.body
            for inner in ast.walk(statement)
        }

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in self.nodes if isinstance(node, ast.Call))


Modules = list[Module]
Faults = list[str]
Rule = Callable[[Modules], Faults]


def read_modules(folder: str) -> Modules:
    """Read a folder of ours, without pb/: what a generator wrote has no shape."""
    top = ROOT / folder
    paths = {str(path.relative_to(top)): path for path in sorted(top.rglob("*.py"))}
    return [
        Module(place, path.read_text())
        for place, path in paths.items()
        if not place.startswith("pb/")
    ]


def last_name(node: ast.AST | None) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def upward_arrows(modules: Modules) -> Faults:
    faults = []
    for module in modules:
        for line, target in module.imports():
            parts = target.split(".")
            if parts[0] != PACKAGE or len(parts) < 2:
                continue
            room = parts[1]
            is_known = room in ARROWS and room != "__init__"
            if is_known and room not in {module.room, *ARROWS.get(module.room, ())}:
                faults.append(f"{module.place}:{line} imports {target}")
            elif room == "pb" and not module.is_in(("upstream/grpc.py", "gateway.py")):
                faults.append(f"{module.place}:{line} imports {target}")
    return faults


def unknown_rooms(modules: Modules) -> Faults:
    return sorted({each.place for each in modules if each.room not in ARROWS})


def folders_without_init(modules: Modules) -> Faults:
    folders = {each.place.rpartition("/")[0] for each in modules}
    inits = {each.place for each in modules if each.place.endswith("__init__.py")}
    return sorted(folders - {each.rpartition("/")[0] for each in inits})


def import_cycles(modules: Modules) -> Faults:
    names = {each.name for each in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        reached = graph.setdefault(module.name, set())
        for _, target in module.imports(at_run_time=True):
            # The name may be one that a module defines: then it is the module.
            found = target if target in names else target.rpartition(".")[0]
            if found in names - {module.name}:
                reached.add(found)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" -> ".join(error.args[1])]
    return []


def asyncio_elsewhere(modules: Modules) -> Faults:
    return [
        f"{module.place}:{line}"
        for module in modules
        if not module.is_in(ASYNCIO_PLACES)
        for line, target in module.imports()
        if target.split(".")[0] == "asyncio"
    ]


def tasks_elsewhere(modules: Modules) -> Faults:
    return [
        f"{module.place}:{call.lineno}"
        for module in modules
        if not module.is_in(TASK_PLACES)
        for call in module.calls()
        if last_name(call.func) in STARTS_TASKS
    ]


def queues_and_events(modules: Modules) -> Faults:
    faults = []
    for module in modules:
        for line, target in module.imports():
            source, _, name = target.rpartition(".")
            if source.split(".")[0] == "asyncio" and name in ASYNCIO_QUEUES:
                faults.append(f"{module.place}:{line}")
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and node.attr in ASYNCIO_QUEUES:
                if last_name(node.value) == "asyncio":
                    faults.append(f"{module.place}:{node.lineno}")
    return faults


def sleeps_of_nothing(modules: Modules) -> Faults:
    return [
        f"{module.place}:{call.lineno}"
        for module in modules
        for call in module.calls()
        if last_name(call.func) == "sleep"
        and any(isinstance(each, ast.Constant) and not each.value for each in call.args)
    ]


def catch_alls(modules: Modules) -> Faults:
    return [
        f"{module.place}:{line}"
        for module in modules
        if not module.is_in(CATCH_ALL_PLACES)
        for node in module.nodes
        for line, caught in caught_by(node)
        if caught in CATCHES_ALL
    ]


def caught_by(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The exceptions that a node swallows; a bare except is BaseException."""
    if isinstance(node, ast.ExceptHandler):
        listed = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        for each in listed:
            yield node.lineno, last_name(each) if each else "BaseException"
    elif isinstance(node, ast.Call) and last_name(node.func) == "suppress":
        for each in node.args:
            yield node.lineno, last_name(each)


def long_modules(modules: Modules) -> Faults:
    counted = [(each.place, each.source.count("\n")) for each in modules]
    return [f"{place}: {lines} lines" for place, lines in counted if lines > MAX_LINES]


def prints_elsewhere(modules: Modules) -> Faults:
    return [
        f"{module.place}:{call.lineno}"
        for module in modules
        if not module.is_in(PRINT_PLACES)
        for call in module.calls()
        if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]


def environment_readers(modules: Modules) -> Faults:
    names = {"environ", "getenv", "argv"}
    return [
        f"{module.place}:{node.lineno}"
        for module in modules
        if not module.is_in(ENVIRONMENT_PLACES)
        for node in module.nodes
        if isinstance(node, ast.Attribute)
        and node.attr in names
        and last_name(node.value) in {"os", "sys"}
    ]
