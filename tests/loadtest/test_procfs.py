"""Reading what a program has cost from /proc."""

import os

import pytest

from loadtest.procfs import (
    PROC,
    Stat,
    cpu_us,
    family,
    memory_kib,
    parse_kib,
    parse_stat,
    read_stats,
    reset_peak,
)

# pid (name) state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt
# utime stime cutime cstime ...
LINE = "42 ({}) S 7 42 42 0 -1 4194304 100 200 0 0 30 12 5 3 20 0 9 0 1234 999 88\n"


def test_cpu_time_is_user_and_system_of_itself_and_of_ended_children() -> None:
    assert parse_stat(LINE.format("nginx")) == Stat(42, 7, 50)


@pytest.mark.parametrize("name", ["smg::router", "a b", "x) S 1 (y", ")"])
def test_a_name_with_blanks_and_brackets_moves_no_field(name: str) -> None:
    assert parse_stat(LINE.format(name)) == Stat(42, 7, 50)


def test_memory_is_read_from_the_line_of_its_name() -> None:
    status = "Name:\tVmRSS\nVmHWM:\t  20480 kB\nVmRSS:\t   1024 kB\n"
    assert parse_kib(status, "VmRSS") == 1024
    assert parse_kib(status, "VmHWM") == 20480


def test_memory_of_one_that_has_none_is_zero() -> None:
    assert parse_kib("Name:\tkthreadd\n", "VmRSS") == 0


def test_a_family_is_the_root_and_all_its_descendants() -> None:
    stats = [Stat(4, 3, 0), Stat(1, 0, 0), Stat(3, 2, 0), Stat(2, 1, 0), Stat(9, 1, 0)]
    assert [stat.pid for stat in family(2, stats)] == [2, 3, 4]


def test_a_family_whose_root_has_ended_is_empty() -> None:
    assert family(2, [Stat(3, 2, 0)]) == []


def test_the_running_tests_are_found_with_their_time_and_memory() -> None:
    me = os.getpid()
    assert me in {stat.pid for stat in read_stats()}
    assert cpu_us(me) > 0
    assert memory_kib(me, "VmRSS") > 1024


def test_resetting_the_peak_brings_it_down_to_what_is_resident() -> None:
    me = os.getpid()
    if not os.access(PROC / str(me) / "clear_refs", os.W_OK):
        pytest.skip("the kernel offers no clear_refs")
    block = bytearray(b"x") * (64 << 20)
    held = memory_kib(me, "VmHWM")
    del block
    reset_peak(me)
    assert memory_kib(me, "VmHWM") < held - (32 << 10)
