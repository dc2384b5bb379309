"""From a prompt to words: smgproxy/simulated/engine.py."""

import math
import struct

import pytest

from smgproxy.simulated.engine import (
    MAX_OUTPUT_TOKENS,
    Limits,
    Prompt,
    answer,
    classify,
    digest,
    digest_ids,
    embed,
    generate,
    score,
)

PROMPT = digest(("Tell me about the river.",))


def test_same_prompt_gives_the_same_text() -> None:
    again = digest(("Tell me about ", "the river."))
    assert generate(again, 0, Limits()) == generate(PROMPT, 0, Limits())


def test_text_stays_the_same_from_release_to_release() -> None:
    assert generate(digest(("hi",)), 0, Limits(max_tokens=7)).text == (
        "One gentle river finds every small letter."
    )


def test_other_prompts_and_other_choices_give_other_texts() -> None:
    texts = {
        generate(prompt, choice, Limits()).text
        for prompt in (PROMPT, digest(("Tell me about the sea.",)))
        for choice in (0, 1)
    }
    assert len(texts) == 4


def test_text_is_plain_words_that_need_no_json_escape() -> None:
    text = generate(PROMPT, 0, Limits(max_tokens=500, is_endless=True)).text
    assert text.isascii()
    assert text.replace(" ", "").replace(".", "").isalpha()


def test_natural_answer_is_whole_sentences_and_ends_with_stop() -> None:
    whole = generate(PROMPT, 0, Limits(max_tokens=MAX_OUTPUT_TOKENS))
    assert whole.text.endswith(".")
    assert whole.finish_reason == "stop"


def test_max_tokens_cuts_to_a_prefix_and_ends_with_length() -> None:
    cut = generate(PROMPT, 0, Limits(max_tokens=5))
    assert len(cut.tokens) == 5
    assert cut.finish_reason == "length"
    assert generate(PROMPT, 0, Limits()).text.startswith(cut.text)


def test_endless_answer_goes_on_to_max_tokens() -> None:
    endless = generate(PROMPT, 0, Limits(max_tokens=200, is_endless=True))
    assert len(endless.tokens) == 200
    assert endless.finish_reason == "length"


def test_endless_answer_without_a_limit_is_bounded() -> None:
    endless = generate(PROMPT, 0, Limits(is_endless=True))
    assert len(endless.tokens) == MAX_OUTPUT_TOKENS


def test_stop_string_cuts_just_before_it_even_inside_a_token() -> None:
    whole = generate(PROMPT, 0, Limits())
    stop = whole.tokens[3][2:] + whole.tokens[4][:2]
    cut = generate(PROMPT, 0, Limits(stops=(stop,)))
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert (cut.finish_reason, cut.matched_stop) == ("stop", stop)


def test_earliest_of_several_stop_strings_decides() -> None:
    whole = generate(PROMPT, 0, Limits())
    stops = (whole.tokens[5], whole.tokens[2], "never said")
    assert generate(PROMPT, 0, Limits(stops=stops)).matched_stop == stops[1]


def test_stop_string_at_the_start_leaves_no_token() -> None:
    first = generate(PROMPT, 0, Limits()).tokens[0]
    assert generate(PROMPT, 0, Limits(stops=(first,))).tokens == ()


def test_answer_counts_tokens_over_prompts_and_choices() -> None:
    both = answer((PROMPT, digest(("x",))), 2, Limits(max_tokens=3))
    assert both.prompt_tokens == 6 + 1
    assert both.completion_tokens == 4 * 3
    assert both.steps == 3


def test_prompt_tokens_are_utf8_bytes_by_four_rounded_up() -> None:
    assert digest(("",)).tokens == 1
    assert digest(("abcd",)).tokens == 1
    assert digest(("abcde",)).tokens == 2
    assert digest(("éé", "éé")).tokens == 2


def test_each_token_id_counts_as_one() -> None:
    assert digest_ids([7, 8, 9]).tokens == 3


@pytest.mark.parametrize("dimensions", [1, 2, 64, 777])
def test_embedding_is_a_unit_vector_of_32_bit_floats(dimensions: int) -> None:
    vector = embed(PROMPT, dimensions)
    assert len(vector) == dimensions
    assert math.isclose(sum(x * x for x in vector), 1.0, rel_tol=1e-5)
    shape = f"{dimensions}f"
    assert list(struct.unpack(shape, struct.pack(shape, *vector))) == vector


def test_score_rises_with_shared_words() -> None:
    query = "where does the river end"
    near, far = "The river does end", "No word of it"
    assert 0 <= score(query, far) < score(query, near) <= 1


def test_class_probabilities_add_up_to_one() -> None:
    odds = classify(Prompt(seed=5, tokens=1), 3)
    assert len(odds) == 3
    assert math.isclose(sum(odds), 1.0)
