"""I1, I2: what a client reads is the text of its ids, in whole characters, special ids kept."""

import asyncio

import pytest

from ssd.client import Client, Options
from ssd.core.errors import InvalidRequest, UnknownSession
from ssd.core.messages import FinishReason
from ssd.core.mode import Mode
from ssd.engine.loading import LoadedModel
from tests.models.table_runner import load_table, saying
from tests.models.tiny_pair import NUM_BYTES, byte_tokenizer
from tests.services.cluster import Cluster

PROMPT = "say:"
SPEECHES = (
    "smile 😀, then 👩‍🚀 and ✨!",
    "日本語と中文和한국어",
    "שלום עולם، مرحبا",
    "naïve café — “quotes” … ½",
)


def speaker(speech: str, *, name: str) -> LoadedModel:
    """A model that says `speech` after the prompt, one byte per token, then its end token."""
    token_ids = byte_tokenizer().encode(PROMPT + speech).ids
    logits_of = saying([*token_ids, NUM_BYTES], vocab_size=NUM_BYTES + 1)
    return load_table(logits_of, name=name, vocab_size=NUM_BYTES + 1, eos_token_ids=(NUM_BYTES,))


@pytest.mark.parametrize("speech", SPEECHES)
async def test_characters_of_several_bytes_arrive_whole(cluster: Cluster, speech: str) -> None:
    await cluster.pair(speaker(speech, name="speaker"), speaker(speech, name="draft"))
    ids = tuple(byte_tokenizer().encode(speech).ids)
    for mode in ("ssd", "sd", "ar"):
        reply = await cluster.generate(PROMPT, mode=mode, temperature=0.0, max_tokens=200)
        assert "\ufffd" not in reply.text
        assert reply.text == speech
        assert reply.token_ids == (*ids, NUM_BYTES), "the end token is in the ids, not in the text"


async def test_special_tokens_inside_an_accepted_run_are_in_the_ids_and_not_in_the_text(
    cluster: Cluster,
) -> None:
    """I2."""
    head, tail = (byte_tokenizer().encode(part).ids for part in ("before", " and after"))
    ids = [*head, NUM_BYTES, *tail]
    prompt = byte_tokenizer().encode(PROMPT).ids
    logits_of = saying([*prompt, *ids], vocab_size=NUM_BYTES + 1)
    models = [
        load_table(logits_of, name=name, vocab_size=NUM_BYTES + 1, eos_token_ids=(NUM_BYTES,))
        for name in ("speaker", "draft")
    ]
    await cluster.pair(*models)
    for mode in ("ssd", "sd", "ar"):
        reply = await cluster.generate(
            PROMPT, mode=mode, temperature=0.0, max_tokens=len(ids), ignore_eos=True
        )
        assert reply.token_ids == tuple(ids)
        assert reply.text == "before and after"
        assert reply.num_accepted > 0 or mode != "sd"


async def test_half_a_character_at_the_end_is_held_back(cluster: Cluster) -> None:
    await cluster.coordinate()
    await cluster.verify(speaker("a😀", name="speaker"))
    reply = await cluster.generate(PROMPT, temperature=0.0, max_tokens=3)
    assert reply.num_tokens == 3
    assert reply.text == "a"


async def test_sampled_bytes_never_break_a_stream(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    """A random model says bytes that are no text; every id still arrives."""
    await cluster.pair(target, draft)
    replies = await asyncio.gather(
        *(
            cluster.generate("x", seed=seed, temperature=1.5, max_tokens=120, ignore_eos=True)
            for seed in range(4)
        )
    )
    tokenizer = byte_tokenizer()
    for reply in replies:
        whole = tokenizer.decode(list(reply.token_ids))
        assert reply.num_tokens == 120
        assert reply.text == whole.rstrip("\ufffd")


async def test_the_python_client_reads_a_generation(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)
    reference = await cluster.generate("hello", temperature=0.0, max_tokens=24)

    def talk() -> None:
        with Client(cluster.address) as client:
            options = Options(
                temperature=0.0, max_tokens=24, mode=Mode.SSD, include_rounds=True, request_id="a"
            )
            generation = client.generate("hello", options)
            with pytest.raises(RuntimeError, match="end"):
                _ = generation.completion
            pieces = list(generation)
            done = generation.completion
            assert tuple(i for piece in pieces for i in piece.token_ids) == reference.token_ids
            assert "".join(piece.text for piece in pieces) == reference.text
            assert (done.request_id, done.mode) == ("a", Mode.SSD)
            assert done.finish_reason is FinishReason.LENGTH
            assert (done.num_prompt_tokens, done.num_completion_tokens) == (5, 24)
            assert len(done.rounds) == done.figures.num_rounds
            assert sum(each.num_accepted for each in done.rounds) == done.figures.num_accepted
            assert client.model_info().model_name == "target"
            assert client.model_info().exactness == "equal to plain decoding with the same seed"
            assert {each.worker.name for each in client.status().workers} == {
                "verifier-0",
                "drafter-0",
            }
            with pytest.raises(UnknownSession):
                client.cancel("nobody")
            with pytest.raises(InvalidRequest, match="top_p"):
                list(client.generate("hello", Options(top_p=0.0)))
            with pytest.raises(InvalidRequest):
                client.generate([-1])

    await asyncio.to_thread(talk)


async def test_the_python_client_cancels_by_leaving(
    cluster: Cluster, target: LoadedModel, draft: LoadedModel
) -> None:
    await cluster.pair(target, draft)

    def leave() -> None:
        with Client(cluster.address) as client:
            generation = client.generate("hello", Options(max_tokens=400))
            next(iter(generation))
            generation.cancel()

    await asyncio.to_thread(leave)
    await cluster.until_freed()
