"""RESULTS.md in parts that are replaced one by one."""

from pathlib import Path

from loadtest.sections import keep, merge, split

COMPARISON = "# Measured\n\n| a |\n"
BOTH = merge(COMPARISON, None, {"http2": "## http2\n\nold\n", "resets": "## resets\n"})


def test_a_file_without_trials_is_the_comparison() -> None:
    assert split(COMPARISON) == (COMPARISON, {})


def test_what_was_merged_is_found_again() -> None:
    first, trials = split(BOTH)
    assert first.rstrip() == COMPARISON.rstrip()
    assert {name: text.rstrip() for name, text in trials.items()} == {
        "http2": "## http2\n\nold",
        "resets": "## resets",
    }


def test_one_trial_replaces_its_own_section_alone() -> None:
    merged = merge(BOTH, None, {"http2": "## http2\n\nnew\n"})
    assert "old" not in merged and "new" in merged
    assert merged.startswith(COMPARISON) and "## resets" in merged


def test_the_comparison_is_replaced_and_the_trials_stay() -> None:
    merged = merge(BOTH, "# Again\n", {})
    assert merged.startswith("# Again\n")
    assert "| a |" not in merged and "old" in merged


def test_merging_the_same_again_changes_nothing() -> None:
    assert merge(BOTH, *split(BOTH)) == BOTH


def test_trials_alone_may_begin_a_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "r.md"
    keep(path, None, {"resets": "## resets\n"})
    assert path.read_text() == "<!-- trial: resets -->\n## resets\n"
