"""N-gram drafting: what it proposes stood in the text before, and it stays in its bounds."""

import tracemalloc
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssd.core.errors import ConfigError
from ssd.core.keys import extend_key, key_of
from ssd.core.ngram import NgramText, as_point_mass
from ssd.core.ngram_limits import NgramForm, NgramLimits
from ssd.core.ngram_table import NgramTable
from ssd.core.suffix_index import SuffixIndex

FORMS = list(NgramForm)
SMALL = {form: NgramLimits(form, size_n=4, size_m=6, num_candidates=3) for form in FORMS}
texts = st.lists(st.integers(0, 4), max_size=60)


def drafted(limits: NgramLimits, text: list[int]) -> NgramText:
    ngram = NgramText(limits)
    ngram.extend(text)
    return ngram


def best_chain(ngram: NgramText, depth: int) -> list[int]:
    """The first candidates, one after another, from the end of the text on."""
    by_key = {each.key: each for each in ngram.grow(max_depth=depth)}
    key, chain = ngram.key, []
    while (expansion := by_key.get(key)) is not None:
        chain.append(expansion.token_ids[0])
        key = extend_key(key, chain[-1])
    return chain


@pytest.mark.parametrize("form", FORMS)
def test_a_copied_text_goes_on_as_before(form: NgramForm) -> None:
    text = Random(1).sample(range(1000), 40)
    ngram = drafted(NgramLimits(form), [*text, *text[:15]])
    assert best_chain(ngram, 8) == text[15:23]


@pytest.mark.parametrize("form", FORMS)
@given(text=texts, cuts=st.lists(st.integers(0, 60), max_size=4))
def test_a_text_told_in_pieces_is_the_same_text(
    form: NgramForm, text: list[int], cuts: list[int]
) -> None:
    pieces = NgramText(SMALL[form])
    for start, end in pairwise(sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})):
        pieces.extend(text[start:end])
    whole = drafted(SMALL[form], text)
    assert pieces.grow(max_depth=5) == whole.grow(max_depth=5)


@pytest.mark.parametrize("form", FORMS)
@given(text=texts, max_nodes=st.integers(1, 9), max_depth=st.integers(0, 7))
def test_expansions_are_named_after_their_text_and_keep_their_bounds(
    form: NgramForm, text: list[int], max_nodes: int, max_depth: int
) -> None:
    ngram = drafted(replace(SMALL[form], max_nodes=max_nodes), text)
    expansions = ngram.grow(max_depth=max_depth)
    assert sum(len(each.token_ids) for each in expansions) <= max_nodes
    depths = {key_of(text): 0}
    for each in expansions:
        depth = depths[each.key]  # a parent comes before its children
        assert each.position == len(text) + depth < len(text) + min(max_depth, 6)
        assert 0 < len(each.token_ids) <= 3
        assert len(set(each.token_ids)) == len(each.token_ids)
        assert all(0.0 < estimate < 1.0 for estimate in each.estimates)
        assert list(each.estimates) == sorted(each.estimates, reverse=True)
        depths |= {extend_key(each.key, token_id): depth + 1 for token_id in each.token_ids}


@given(text=texts)
def test_the_longest_suffix_wins_where_nothing_was_followed_yet(text: list[int]) -> None:
    limits = SMALL[NgramForm.SIMPLE]
    index = SuffixIndex(text, limits)
    index.catch_up(len(text))
    agreements = {
        place: next(
            (n for n in range(min(4, place)) if text[place - 1 - n] != text[len(text) - 1 - n]),
            min(4, place),
        )
        for place in range(1, len(text))
    }
    recent = [place for place, n in agreements.items() if n >= limits.shortest][-8:]
    found = index.find()
    if not recent:
        assert found is None
    else:
        best = max(agreements[place] for place in recent)
        assert found == (max(each for each in recent if agreements[each] == best), best)


def test_a_replaced_word_costs_a_few_tokens_and_the_copy_goes_on() -> None:
    source = Random(2).choices(range(50), k=300)  # every token stands in six places
    names = {7: [60], 11: [61, 62], 13: []}  # renamed, longer, left out
    edited = [new for old in source for new in names.get(old, [old])]
    ngram = drafted(NgramLimits(shortest=2), source)  # one random token says nothing
    place = num_rounds = 0
    while place < len(edited):
        chain = best_chain(ngram, 8)
        rest = edited[place:]
        accepted = next(
            (n for n, each in enumerate(chain) if rest[n : n + 1] != [each]), len(chain)
        )
        ngram.extend(rest[: accepted + 1])
        place += accepted + 1
        num_rounds += 1
    assert len(edited) / num_rounds > 4.0


def test_a_table_ranks_by_count_or_by_time() -> None:
    text = [1, 2, 5, 1, 2, 5, 1, 2, 6, 1, 2]
    first = {}
    for form in (NgramForm.MAP_K, NgramForm.MAP_K4V):
        ngram = drafted(NgramLimits(form, size_n=2), text)
        first[form] = ngram.grow(max_depth=1)[0].token_ids
    assert first == {NgramForm.MAP_K: (6, 5), NgramForm.MAP_K4V: (5, 6)}


@pytest.mark.parametrize("form", FORMS)
def test_a_run_counts_from_its_minimum_of_hits_on(form: NgramForm) -> None:
    limits = NgramLimits(form, size_n=2, min_hits=2)
    assert not drafted(limits, [1, 2, 5, 1, 2]).grow(max_depth=1)
    assert drafted(limits, [1, 2, 5, 1, 2, 5, 1, 2]).grow(max_depth=1)


def test_the_fifth_token_takes_the_place_of_the_rarest() -> None:
    table = NgramTable(NgramLimits(NgramForm.MAP_K4V, size_n=2))
    for token_id in (1, 1, 2, 3, 4, 5, 5):
        table.learn([8, 9], token_id)
    assert [token_id for token_id, _ in table.look_up([8, 9])] == [1, 5, 2, 3]


def test_a_shared_table_knows_what_another_text_said() -> None:
    limits = NgramLimits(NgramForm.MAP_K4V, size_n=4)
    table = NgramTable(limits)
    NgramText(limits, shared=table).extend([1, 2, 3, 4, 5, 6, 7])
    other = NgramText(limits, shared=table)
    other.extend([9, 2, 3, 4])
    assert best_chain(other, 8) == [5, 6, 7]


@pytest.mark.parametrize("form", FORMS)
def test_memory_stays_below_its_bound(form: NgramForm) -> None:
    limits = NgramLimits(form, table_bytes=2**20)
    text = Random(3).choices(range(50_000), k=20_000)
    tracemalloc.start()
    ngram = NgramText(limits)
    for start in range(0, len(text), 500):
        ngram.extend(text[start : start + 500])
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.4 * 2**20 < used < 2**20 + 8 * len(text) * 1.2  # and the text's own list


def test_a_long_prompt_is_remembered_bit_by_bit() -> None:
    text = Random(4).sample(range(100_000), 5_000)
    ngram = drafted(NgramLimits(), [*text, *text[:12]])
    ngram.extend([text[12]])
    assert best_chain(ngram, 4) == text[13:17], "the beginning is known at once"
    ngram = drafted(NgramLimits(), [*text, *text[3_000:3_012]])
    assert not best_chain(ngram, 4)
    ngram.extend([text[3_012]])
    assert best_chain(ngram, 4) == text[3_013:3_017]


def test_under_rule_ratio_a_proposal_was_certain() -> None:
    expansion = drafted(NgramLimits(NgramForm.MAP_K4V, size_n=2), [1, 2, 3, 1, 2, 4, 1, 2]).grow(
        max_depth=1
    )[0]
    mass = as_point_mass(expansion)
    assert mass.proposals == expansion.token_ids[:1]
    assert mass.is_sampled(vocab_size=5)
    assert mass.law is None


@pytest.mark.parametrize("field", ["size_n", "size_m", "min_hits", "shortest", "max_nodes"])
def test_a_limit_below_one_is_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        replace(NgramLimits(), **cast("dict[str, Any]", {field: 0}))
