"""F3: which drafts may work for which targets, and what the status says about the others."""

from dataclasses import replace

from tokenizers import AddedToken

from ssd.engine.loading import LoadedModel
from ssd.tokenizer.vocabulary import Vocabulary
from tests.models.scripted_model import Prefix, ScriptedModel
from tests.models.table_runner import Logits, agreeing, load_table
from tests.models.tiny_pair import byte_tokenizer
from tests.services.cluster import Cluster

PROMPT = (1, 2, 3)
VOCAB_SIZE = 12


def other_vocabulary() -> Vocabulary:
    """One ordinary token more."""
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["another"])
    return Vocabulary.from_tokenizer(tokenizer)


async def test_a_drafter_with_another_tokenizer_is_not_used_and_the_status_says_why(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel, table_draft: LoadedModel
) -> None:
    await cluster.coordinate()
    await cluster.verify(table_target)
    stranger = replace(table_draft, name="stranger", vocabulary=other_vocabulary())
    drafter = await cluster.draft(stranger, is_used=False)
    for mode in ("ssd", "sd"):
        reply = await cluster.generate(PROMPT, temperature=0.0, mode=mode, max_tokens=20)
        assert reply.token_ids == script.continue_text(PROMPT, max_len=23)
        assert reply.complete.figures.num_proposed == 0
    assert drafter.drafter.num_steps == 0
    status = await cluster.worker_status("drafter-0")
    assert not status.is_up
    assert "different tokenizers" in status.reason
    assert "stranger" in status.reason


async def test_a_drafter_without_a_verifier_says_what_it_waits_for(
    cluster: Cluster, table_draft: LoadedModel
) -> None:
    await cluster.coordinate()
    await cluster.draft(table_draft, is_used=False)
    status = await cluster.worker_status("drafter-0")
    assert (status.is_up, status.reason) == (False, "no verifier is registered")


def loving_padding(model: ScriptedModel, *, num_extra: int) -> Logits:
    """Rates the ids behind the vocabulary above all others."""
    logits_of = agreeing(model)

    def padded(text: Prefix) -> list[float]:
        return [*logits_of(text), *([100.0] * num_extra)]

    return padded


async def test_padding_ids_of_a_draft_are_never_drafted(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    padded = load_table(
        loving_padding(script, num_extra=8),
        name="padded-draft",
        vocab_size=VOCAB_SIZE + 8,
    )
    await cluster.pair(table_target, padded)
    reply = await cluster.generate(PROMPT, temperature=0.0, mode="sd", max_tokens=40)
    assert reply.token_ids == script.continue_text(PROMPT, max_len=43)
    assert reply.acceptance == 1.0, "without its padding the draft is the target"
    assert reply.num_accepted > 0


async def test_padding_ids_of_a_target_end_drafting_for_that_text_only(
    cluster: Cluster, script: ScriptedModel
) -> None:
    """A prompt or a text may hold ids that a shorter draft has no embedding for."""
    wide = ScriptedModel(vocab_size=VOCAB_SIZE + 4, seed=3)
    target = load_table(agreeing(wide), name="padded-target", vocab_size=VOCAB_SIZE + 4)
    _, drafter = await cluster.pair(target, load_table(agreeing(script), name="draft"))
    with_padding = (1, VOCAB_SIZE + 2, 3)
    for prompt in (with_padding, PROMPT):
        for mode in ("ssd", "sd"):
            reply = await cluster.generate(prompt, temperature=0.0, mode=mode, max_tokens=60)
            assert reply.token_ids == wide.continue_text(prompt, max_len=63)
            assert max(reply.token_ids) >= VOCAB_SIZE, "the text reaches the padding"
    assert drafter.drafter.num_steps > 0
    await cluster.until_freed()


async def test_special_tokens_that_differ_are_not_drafted(
    cluster: Cluster, script: ScriptedModel, table_target: LoadedModel
) -> None:
    """The pair works; only these ids mean something else."""
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens([AddedToken("<|other|>", special=True)])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    draft = replace(load_table(agreeing(script), name="draft"), vocabulary=vocabulary)
    await cluster.pair(table_target, draft)
    reply = await cluster.generate(PROMPT, temperature=0.0, mode="sd", max_tokens=20)
    assert reply.token_ids == script.continue_text(PROMPT, max_len=23)
    assert reply.num_accepted > 0
