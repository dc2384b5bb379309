"""The fleet's capacity, from the labels of its ready workers."""

from __future__ import annotations

import pytest

from smgproxy.admission.capacity import fleet_capacity

RUNNING, SEQS = "max_running_requests", "max_num_seqs"


def test_ready_workers_are_summed_by_what_they_say_or_64() -> None:
    labels = [{RUNNING: "2"}, {SEQS: "5"}, {}]
    assert fleet_capacity(labels, 9) == 71


def test_the_running_limit_counts_before_the_sequence_limit() -> None:
    assert fleet_capacity([{RUNNING: "3", SEQS: "8"}], -1) == 3


@pytest.mark.parametrize("text", ["0", "-4", "many", "", "1e3", "\u0663", "9" * 50])
def test_a_label_that_is_no_positive_number_says_nothing(text: str) -> None:
    assert fleet_capacity([{RUNNING: text, SEQS: "8"}], -1) == 8
    assert fleet_capacity([{RUNNING: text}], -1) == 64


@pytest.mark.parametrize(("limit", "capacity"), [(9, 9), (0, 1024), (-1, 1024)])
def test_without_ready_workers_the_limit_stands_in(limit: int, capacity: int) -> None:
    assert fleet_capacity([], limit) == capacity
