"""The shape of the house, held against the rules in architecture_rules.py."""

import pytest

from tests.architecture_rules import (
    MAX_LINES,
    PACKAGE,
    Faults,
    Modules,
    asyncio_elsewhere,
    catch_alls,
    environment_readers,
    folders_without_init,
    import_cycles,
    long_modules,
    prints_elsewhere,
    queues_and_events,
    read_modules,
    sleeps_of_nothing,
    tasks_elsewhere,
    unknown_rooms,
    upward_arrows,
)


@pytest.fixture(scope="module")
def house() -> Modules:
    return read_modules(PACKAGE)


def agree(faults: Faults, remedy: str) -> None:
    if faults:
        pytest.fail("\n".join([*faults, remedy]), pytrace=False)


def test_imports_follow_the_arrows(house: Modules) -> None:
    agree(
        upward_arrows(house),
        "No arrow leads there (ROOMS in architecture_rules.py). What a room needs "
        "from one it may not import is an argument that gateway.py fills in.",
    )


def test_every_module_is_in_a_known_room(house: Modules) -> None:
    agree(
        unknown_rooms(house),
        "Put the module into the room it belongs to; a new room needs its line, "
        "with its arrows, in ROOMS of architecture_rules.py.",
    )


def test_every_folder_is_a_package(house: Modules) -> None:
    agree(
        folders_without_init(house),
        "Add an __init__.py with a docstring that says what the folder is for: "
        "without it the folder is missing from the installed package.",
    )


def test_no_import_cycles(house: Modules) -> None:
    agree(
        import_cycles(house),
        "Cut one of the imports: move what both need into a third module, or hand "
        "it over as an argument.",
    )


def test_asyncio_stays_in_its_rooms(house: Modules) -> None:
    agree(
        asyncio_elsewhere(house),
        "This room is plain functions and values: take `now` as an argument and "
        "leave waiting to dispatch/, downstream/ or upstream/.",
    )


def test_tasks_start_in_few_places(house: Modules) -> None:
    agree(
        tasks_elsewhere(house),
        "One task an exchange, made in dispatch/serve.py. A loop in the background "
        "is started with the function that gateway.py hands to its room.",
    )


def test_no_queue_and_no_event(house: Modules) -> None:
    agree(
        queues_and_events(house),
        "Bytes go from Source to Sink and are held back by a Hold; one waiter is a "
        "Future.",
    )


def test_no_sleep_of_nothing(house: Modules) -> None:
    agree(
        sleeps_of_nothing(house),
        "sleep(0) hopes that another has its turn in time. Wait for what you need.",
    )


def test_catch_alls_stay_at_the_two_edges(house: Modules) -> None:
    agree(
        catch_alls(house),
        "Catch the errors you expect, by name. The rest is caught once: a request's "
        "in dispatch/serve.py, the gateway's in gateway.py.",
    )


@pytest.mark.parametrize("folder", [PACKAGE, "tests", "loadtest"])
def test_modules_are_short(folder: str) -> None:
    agree(
        long_modules(read_modules(folder)),
        f"Above {MAX_LINES} lines a module does two things: make two of it.",
    )


def test_only_the_command_line_prints(house: Modules) -> None:
    agree(
        prints_elsewhere(house),
        "Log it (logging.getLogger(__name__)), or give it to cli.py to print.",
    )


def test_only_the_command_line_reads_the_environment(house: Modules) -> None:
    agree(
        environment_readers(house),
        "cli.py reads the environment and the arguments: take a setting, or the "
        "mapping, as an argument.",
    )
