"""What may be chosen: smgproxy/simulated/options.py."""

import pytest

from smgproxy.simulated.options import MAX_WORKERS, SimulatedOptions


@pytest.mark.parametrize("count", [1, MAX_WORKERS])
def test_count_within_bounds_is_accepted(count: int) -> None:
    assert SimulatedOptions(count=count).count == count


@pytest.mark.parametrize("count", [0, -1, MAX_WORKERS + 1])
def test_count_out_of_bounds_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="count"):
        SimulatedOptions(count=count)


@pytest.mark.parametrize("pace", [-1.0, float("nan"), float("inf")])
def test_pace_that_is_no_pace_is_refused(pace: float) -> None:
    with pytest.raises(ValueError, match="ttft_ms"):
        SimulatedOptions(ttft_ms=pace)
    with pytest.raises(ValueError, match="tokens_per_second"):
        SimulatedOptions(tokens_per_second=pace)


def test_empty_model_name_is_refused() -> None:
    with pytest.raises(ValueError, match="model"):
        SimulatedOptions(model="")
