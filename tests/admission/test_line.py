"""Waiting lines: by entry, or by turns of the tenants."""

from __future__ import annotations

import pytest

from smgproxy.admission.line import FairLine, Line
from smgproxy.admission.scheduler import Scheduler
from tests.admission.asking import Request, limits, submitted


def filled(line: Line, names: str) -> dict[str, Request]:
    """Tickets named like ``a1``: the letter is the tenant."""
    requests = {name: Request(name, tenant=name[0]) for name in names.split()}
    for each in requests.values():
        line.add(each)
    return requests


def order(line: Line) -> str:
    """The names in order of service, each seen by ``first`` before it was taken."""
    names = []
    while line.tickets:
        first = line.first()
        assert line.take() is first
        names.append(str(first))
    return " ".join(names)


def test_a_line_serves_in_order_of_entry() -> None:
    line = Line()
    requests = filled(line, "a1 a2 b1 a3 b2")
    line.remove(requests["a2"])
    assert str(line.oldest()) == "a1"
    assert order(line) == "a1 b1 a3 b2"


def test_a_fair_line_serves_tenants_in_turn_and_each_in_order_of_entry() -> None:
    line = FairLine()
    filled(line, "a1 a2 a3 a4 b1 b2 c1")
    assert order(line) == "a1 b1 c1 a2 b2 a3 a4"


def test_a_single_request_waits_for_one_turn_of_a_burst() -> None:
    line = FairLine()
    filled(line, "a1 a2 a3 a4 a5")
    line.take()
    filled(line, "b1")
    assert order(line) == "a2 b1 a3 a4 a5"


def test_who_comes_back_starts_at_the_end() -> None:
    line = FairLine()
    filled(line, "a1 b1 c1")
    line.take()
    filled(line, "a2")
    assert order(line) == "b1 c1 a2"


def test_the_oldest_is_the_oldest_whoever_is_next() -> None:
    line = FairLine()
    filled(line, "a1 a2 b1")
    line.take()
    assert (str(line.oldest()), str(line.first())) == ("a2", "b1")


def test_a_tenant_keeps_its_turn_when_one_of_its_tickets_leaves() -> None:
    line = FairLine()
    requests = filled(line, "a1 a2 b1")
    line.remove(requests["a1"])
    assert order(line) == "a2 b1"


def test_a_tenant_whose_last_ticket_leaves_has_no_turn() -> None:
    line = FairLine()
    requests = filled(line, "a1 b1")
    line.remove(requests["a1"])
    assert order(line) == "b1"


@pytest.mark.parametrize(
    ("is_fair", "served"), [(False, ["a2", "a3", "a4", "b1"]), (True, ["a2", "b1"])]
)
def test_the_scheduler_is_fair_inside_a_class_if_asked(
    is_fair: bool, served: list[str]
) -> None:
    one = Scheduler(1, (limits(),) * 4, is_fair=is_fair)
    names = ["a1", "a2", "a3", "a4", "b1"]
    requests = {name: submitted(one, name, tenant=name[0]) for name in names}
    seen = []
    holder = requests["a1"]
    while not requests["b1"].heard:
        one.release(holder, 1.0)
        (holder,) = (
            each for name, each in requests.items() if each.heard and name not in seen
        )
        seen.append(str(holder))
    assert seen == served


def test_a_starving_class_is_promoted_by_its_oldest_and_served_by_turns() -> None:
    one = Scheduler(1, (limits(starvation=5),) * 4, is_fair=True)
    holder = submitted(one, tenant="c")
    a1 = submitted(one, "a1", tenant="a", now=0.0)
    a2 = submitted(one, "a2", tenant="a", now=0.0)
    b1 = submitted(one, "b1", tenant="b", now=4.0)
    one.release(holder, 6.0)
    one.release(a1, 6.0)
    assert (a2.heard, b1.heard) == ([], ["grant"])
    assert one.lanes[1].stats.promotions == 2
