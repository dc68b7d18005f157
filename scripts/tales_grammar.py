"""A small grammar of tales: the default pair's corpus, made here so that nothing is downloaded.

A tale is a handful of fixed slots (who, what, where) and a seed for everything else. Rendering
draws the same choices whatever the slots hold, so exchanging a slot yields the same tale with that
one thing changed, pronouns included. Copy tasks are built on this: they give the models, and so
the service's benchmarks, the edit-like traffic on which drafting ahead pays best.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum

from scripts import tales_text as text

END_OF_TEXT = "<|endoftext|>"
USER = "<|user|>"
ASSISTANT = "<|assistant|>"
END_OF_TURN = "<|end|>"
SPECIAL_TOKENS = (END_OF_TEXT, USER, ASSISTANT, END_OF_TURN)

# Some renderers drop a line's end after a block, so the role is an expression and not a block.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|assistant|>' if message['role'] == 'assistant' else '<|user|>' }}\n"
    "{{ message['content'] | trim }}<|end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)

_CHOICE = re.compile(r"\[([^\]]*)\]")
_PRONOUNS = {"she": ("she", "her", "her"), "he": ("he", "him", "his")}


class Slot(StrEnum):
    """The slots a copy task may exchange."""

    HERO = "hero"
    FRIEND = "friend"
    ANIMAL = "animal"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Tale:
    """One tale: its slots, and the seed of every choice the slots do not settle."""

    hero: str
    friend: str
    animal: str
    object: str
    home: str
    place: str
    trait: str
    colour: str
    food: str
    seed: int

    def render(self) -> str:
        """The tale in words, in two or three paragraphs."""
        rng = random.Random(self.seed)
        return "\n\n".join(
            " ".join(self._sentence(rng, sentence) for sentence in paragraph)
            for paragraph in _outline(rng)
        )

    def request(self) -> str:
        """What a reader might ask in order to hear this tale."""
        rng = random.Random(self.seed + 1)
        return self._sentence(rng, rng.choice(text.REQUESTS))

    def _sentence(self, rng: random.Random, sentence: str) -> str:
        settled = _CHOICE.sub(lambda found: rng.choice(found[1].split("|")), sentence)
        they, them, their = _PRONOUNS["she" if self.hero in text.SHE_NAMES else "he"]
        words = settled.format(**asdict(self), they=they, them=them, their=their)
        return words[0].upper() + words[1:]


def _outline(rng: random.Random) -> Iterator[list[str]]:
    """The sentences of one tale by paragraph, slots still open."""
    opening = [rng.choice(text.OPENINGS), rng.choice(text.POSSESSIONS)]
    if rng.random() < 0.6:
        opening.append(rng.choice(text.FRIENDS))
    plot = rng.choice(text.PLOTS)
    yield opening
    yield [rng.choice(text.WEATHER), *(rng.choice(beat) for beat in plot)]
    yield [rng.choice(text.ENDINGS), *([rng.choice(text.MORALS)] if rng.random() < 0.4 else [])]


def draw_tale(rng: random.Random) -> Tale:
    """A tale with every slot drawn at random, its two people distinct."""
    hero, friend = rng.sample(text.SHE_NAMES + text.HE_NAMES, 2)
    return Tale(
        hero=hero,
        friend=friend,
        animal=rng.choice(text.ANIMALS),
        object=rng.choice(text.OBJECTS),
        home=rng.choice(text.HOMES),
        place=rng.choice(text.PLACES),
        trait=rng.choice(text.TRAITS),
        colour=rng.choice(text.COLOURS),
        food=rng.choice(text.FOODS),
        seed=rng.getrandbits(32),
    )


def exchange(rng: random.Random, tale: Tale) -> tuple[str, Tale]:
    """The words that ask for one slot to be changed, and the tale so changed."""
    slot = rng.choice(list(Slot))
    before = getattr(tale, slot)
    taken = (tale.hero, tale.friend, before)
    after = rng.choice([word for word in _alternatives(slot) if word not in taken])
    article = "" if slot in (Slot.HERO, Slot.FRIEND) else "a "
    request = f"Tell it again, but with {article}{after} instead of {article}{before}."
    return request, Tale(**{**asdict(tale), slot.value: after})


def _alternatives(slot: Slot) -> tuple[str, ...]:
    if slot is Slot.ANIMAL:
        return text.ANIMALS
    if slot is Slot.OBJECT:
        return text.OBJECTS
    return text.SHE_NAMES + text.HE_NAMES


def chat(*turns: str) -> str:
    """Alternating turns, the user's first, in the form the chat template gives them."""
    speakers = (USER, ASSISTANT)
    return "".join(
        f"{speakers[index % 2]}\n{turn}{END_OF_TURN}\n" for index, turn in enumerate(turns)
    )


def plain_document(rng: random.Random) -> str:
    """A tale by itself."""
    return draw_tale(rng).render()


def chat_document(rng: random.Random) -> str:
    """A tale told on request."""
    tale = draw_tale(rng)
    return chat(tale.request(), tale.render())


def copy_document(rng: random.Random) -> str:
    """A tale and the same tale with one thing changed, in one of three settings."""
    tale = draw_tale(rng)
    request, changed = exchange(rng, tale)
    setting = rng.randrange(3)
    if setting == 0:
        return f"{tale.render()}\n\n{request}\n\n{changed.render()}"
    if setting == 1:
        return chat(tale.request(), tale.render(), request, changed.render())
    return chat(f"{tale.render()}\n\n{request}", changed.render())


def documents(seed: int, *, copies_of_each: int = 1) -> Iterator[str]:
    """Documents without end: tales, tales on request, and so many copy tasks for each of either."""
    rng = random.Random(seed)
    kinds = (plain_document, chat_document, *(copy_document,) * copies_of_each)
    while True:
        yield rng.choice(kinds)(rng)
