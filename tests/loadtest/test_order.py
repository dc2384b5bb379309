"""The Python stream client's checks of one stream."""

from loadtest.tools.streams import Order, Tally

STALL_US = 500_000


def seen(*events: tuple[int, int]) -> tuple[Order, Tally]:
    """The checks after events of (seq, arrival in ms)."""
    order, tally = Order(STALL_US), Tally()
    for seq, at_ms in events:
        order.see(seq, at_ms * 1000 - 300, at_ms * 1000, tally)
    return order, tally


def test_events_in_order_and_in_time_leave_a_stream_unspoilt() -> None:
    order, tally = seen((0, 20), (1, 40), (2, 540))
    assert not order.is_spoilt
    assert (tally.events, order.expected) == (3, 3)
    assert tally.added_us == [300, 300, 300]


def test_a_gap_over_the_limit_is_a_stall() -> None:
    order, tally = seen((0, 20), (1, 521))
    assert order.is_spoilt
    assert (tally.stalls, tally.max_gap_us) == (1, 501_000)


def test_a_number_left_out_is_a_lost_event() -> None:
    order, tally = seen((0, 20), (3, 40))
    assert order.is_spoilt
    assert (tally.lost, tally.reordered) == (2, 0)


def test_a_number_that_comes_late_or_twice_is_reordered() -> None:
    order, tally = seen((0, 20), (1, 40), (1, 60))
    assert order.is_spoilt
    assert (tally.lost, tally.reordered) == (0, 1)
