"""A4, A5, I1: stop strings over pieces of any size, and what is held back for them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.output_text import OutputText
from coordinator.stop_strings import StopMatcher
from coordinator.text_codec import TextCodec
from ssd.core.errors import InvalidRequest
from ssd.core.stop_rules import StopRules
from tests.models.tiny_pair import byte_tokenizer

texts = st.text(alphabet="abc", max_size=24)
stop_lists = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=4)


def slow_stop(text: str, stops: Sequence[str], *, are_included: bool) -> tuple[str, str | None]:
    """The rule read aloud: the first character that completes a stop; then the earliest start."""
    for end in range(1, len(text) + 1):
        done = [stop for stop in stops if text[:end].endswith(stop)]
        if done:
            stop = max(done, key=len)
            return text[: end if are_included else end - len(stop)], stop
    return text, None


@given(texts, stop_lists, st.booleans(), st.data())
def test_the_cut_depends_on_the_text_alone(
    text: str, stops: list[str], are_included: bool, data: st.DataObject
) -> None:
    matcher = StopMatcher(stops, are_included=are_included)
    shown, start = "", 0
    while start < len(text):
        end = data.draw(st.integers(start + 1, len(text)))
        shown += matcher.feed(text[start:end])
        start = end
    shown += matcher.flush()
    assert (shown, matcher.matched) == slow_stop(text, stops, are_included=are_included)


@given(texts, stop_lists)
def test_only_the_beginning_of_a_stop_is_held_back(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    shown = matcher.feed(text)
    if matcher.matched is None:
        held = text[len(shown) :]
        assert not held or any(stop.startswith(held) and stop != held for stop in stops)
        longer = [text[start:] for start in range(len(shown))]
        assert not any(stop.startswith(each) for stop in stops for each in longer)


def test_nothing_comes_after_a_match() -> None:
    matcher = StopMatcher(["END"])
    assert matcher.feed("so it is END of") == "so it is "
    assert matcher.feed("more") == matcher.flush() == ""
    assert matcher.matched == "END"


@pytest.mark.parametrize("stops", [("",), ("a" * 257,), ("a",) * 17])
def test_rules_outside_the_limits_are_refused(stops: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest, match="stop"):
        StopRules(stops)


def read(speech: str, rules: StopRules, *, sizes: Sequence[int], min_tokens: int = 0) -> OutputText:
    """Feed a speech, one token per byte, in commits of the given sizes."""
    token_ids = byte_tokenizer().encode(speech).ids
    output = OutputText(TextCodec(byte_tokenizer().to_str()), rules, min_tokens=min_tokens)
    for size in sizes:
        if output.feed(token_ids[output.num_tokens : output.num_tokens + size]):
            return output
    output.finish()
    return output


@pytest.mark.parametrize("size", range(1, 12))
def test_text_and_ids_end_at_one_place_wherever_a_commit_is_cut(size: int) -> None:
    """A4: at each offset of an accepted run, and across two."""
    output = read("so 😀 stop here", StopRules(("stop",)), sizes=[size] * 30)
    assert output.take() == "so 😀 "
    assert output.num_tokens == len("so 😀 stop".encode())
    assert output.matched == "stop"


def test_a_stop_of_several_bytes_is_found() -> None:
    output = read("one 日本 two", StopRules(("日本",), are_included=True), sizes=[1] * 30)
    assert output.take() == "one 日本"
    assert output.num_tokens == len("one 日本".encode())


def test_a_stop_string_counts_only_after_min_tokens() -> None:
    output = read("stop, stop", StopRules(("stop",)), sizes=[3] * 5, min_tokens=4)
    assert output.take() == "stop, "
    assert output.num_tokens == 10
