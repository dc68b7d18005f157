"""The default pair's corpus: the same for a seed, coherent, and copied where it claims to copy."""

import hashlib
import random
from itertools import islice

import jinja2
import pytest

from scripts import pair_corpus, tales_grammar, tales_text
from scripts.tales_grammar import Slot, Tale

PEOPLE = tales_text.SHE_NAMES + tales_text.HE_NAMES
PRONOUNS = {"she", "her", "he", "him", "his"}
# Of the first 500 documents of seed 1, which the committed models were trained on.
CORPUS_SHA256 = "27e5937f2ac611d76719e5cf6ab1aae06482cb8de205557524210f9fdf4bd2a4"


def words(text: str) -> list[str]:
    return [word.strip('.,?!"').removesuffix("'s") for word in text.split()]


def test_same_seed_gives_same_documents() -> None:
    first = list(islice(tales_grammar.documents(7), 200))
    assert first == list(islice(tales_grammar.documents(7), 200))
    assert first != list(islice(tales_grammar.documents(8), 200))


def test_corpus_is_still_the_one_the_models_learnt() -> None:
    learnt = tales_grammar.documents(1, copies_of_each=pair_corpus.COPIES_OF_EACH)
    documents = "\0".join(islice(learnt, 500))
    assert hashlib.sha256(documents.encode()).hexdigest() == CORPUS_SHA256


def test_no_slot_or_choice_is_left_open() -> None:
    documents = "".join(islice(tales_grammar.documents(2), 500))
    assert not set("{}[]") & set(documents)


def test_article_a_is_right_before_every_animal_and_object() -> None:
    assert not [word for word in tales_text.ANIMALS + tales_text.OBJECTS if word[0] in "aeiou"]


@pytest.mark.parametrize("seed", range(20))
def test_copy_differs_only_in_what_was_asked(seed: int) -> None:
    rng = random.Random(seed)
    tale = tales_grammar.draw_tale(rng)
    request, changed = tales_grammar.exchange(rng, tale)
    before, after = words(tale.render()), words(changed.render())
    allowed = {getattr(story, slot) for story in (tale, changed) for slot in Slot} | PRONOUNS
    differing = {
        word.lower() if word.lower() in PRONOUNS else word
        for pair in zip(before, after, strict=True)
        if pair[0] != pair[1]
        for word in pair
    }
    assert differing <= allowed
    assert any(f"{getattr(changed, slot)} instead of" in request for slot in Slot)


def test_copy_document_holds_both_tales() -> None:
    for seed in range(50):
        document = tales_grammar.copy_document(random.Random(seed))
        request = document[document.index("Tell it again, but with") :]
        assert " instead of " in request.splitlines()[0].split(tales_grammar.END_OF_TURN)[0]
        assert len(request) > 400


def test_a_third_of_the_documents_are_copies() -> None:
    documents = list(islice(tales_grammar.documents(3), 900))
    num_copies = sum("Tell it again, but with" in document for document in documents)
    assert num_copies == pytest.approx(300, abs=60)


def test_hero_recurs_and_nobody_else_walks_in() -> None:
    for seed in range(100):
        tale = tales_grammar.draw_tale(random.Random(seed))
        present = [word for word in words(tale.render()) if word in PEOPLE]
        assert present.count(tale.hero) >= 2
        assert set(present) <= {tale.hero, tale.friend}


def test_exchange_never_makes_hero_and_friend_one() -> None:
    rng = random.Random(5)
    tales: list[Tale] = [
        tales_grammar.exchange(rng, tales_grammar.draw_tale(rng))[1] for _ in range(500)
    ]
    assert all(tale.hero != tale.friend for tale in tales)


@pytest.mark.parametrize("trims", [True, False])
def test_chat_document_has_the_form_of_the_chat_template(trims: bool) -> None:
    renderer = jinja2.Environment(
        trim_blocks=trims, lstrip_blocks=trims, keep_trailing_newline=not trims
    )
    template = renderer.from_string(tales_grammar.CHAT_TEMPLATE)
    turns = [{"role": "user", "content": "Tell me a tale."}, {"role": "assistant", "content": "A."}]
    rendered = template.render(messages=turns, add_generation_prompt=False)
    assert rendered == tales_grammar.chat("Tell me a tale.", "A.")
    asked = template.render(messages=turns[:1], add_generation_prompt=True)
    assert asked == f"{tales_grammar.chat('Tell me a tale.')}{tales_grammar.ASSISTANT}\n"
