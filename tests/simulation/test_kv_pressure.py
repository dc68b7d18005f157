"""Too little KV for all: prefixes go, drafts go, the newest are preempted; every text is right."""

from dataclasses import replace

from coordinator.journal_records import Opened
from ssd.core.client_session import Admission
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.growth import GrowthLimits, chain_limits
from ssd.core.ids import SessionId
from ssd.core.mode import Mode
from ssd.core.sampling_params import SamplingParams
from tests.models.scripted_model import Noisy, ScriptedModel
from tests.simulation.scenario import SD_DEPTH, Scenario, random_scenario
from tests.simulation.world import World

NUM_SEEDS = 8
CONTEXT_LEN = 400
COMMON = tuple(index % 7 for index in range(40))


def _scenario(seed: int) -> Scenario:
    """Sessions that fit when they are admitted and not when they have grown."""
    base = random_scenario(seed, size=3)
    target = ScriptedModel(vocab_size=12, seed=seed)
    admissions = tuple(
        Admission(
            session_id=SessionId(f"s{index}"),
            prompt_token_ids=(*COMMON, index % 3),
            max_len=CONTEXT_LEN - 20,
            params=SamplingParams(),
            stop_token_ids=frozenset(),
            mode=(Mode.SSD, Mode.SHADOW, Mode.AR, Mode.SD)[index % 4],
        )
        for index in range(5)
    )
    verifier_limits = replace(
        base.verifier_limits, context_len=CONTEXT_LEN, kv_slots=960 + seed, max_rows=64, kv_block=8
    )
    drafter_limits = DrafterLimits(
        context_len=CONTEXT_LEN,
        kv_slots=680 + 8 * (seed % 9),
        kv_block=8,
        growth=GrowthLimits(num_candidates=2, max_nodes=16 + seed % 7),
        chain=chain_limits(SD_DEPTH),
    )
    return Scenario(
        seed=seed,
        target=target,
        drafts=(Noisy(target),),
        admissions=admissions,
        verifier_limits=verifier_limits,
        drafter_limits=(drafter_limits,),
        cancel=0.2,
        arrivals_s=1.0,
    )


def test_every_text_ends_and_is_right_when_the_kv_is_too_small() -> None:
    """The run itself checks texts, every row's KV, the books, and that both sides end empty."""
    preempted = undrafted = evicted = copied = dropped = 0
    for seed in range(NUM_SEEDS):
        world = World(_scenario(seed))
        world.run()
        room = world.verifier.core.room
        preempted += room.num_preempted
        undrafted += room.num_undrafted
        evicted += room.pool.num_evicted
        copied += world.verifier.memory.num_copied
        dropped += sum(each.core.num_dropped for each in world.drafters.values())
    assert min(preempted, undrafted, evicted, copied, dropped) > 0


def test_the_oldest_session_is_never_preempted() -> None:
    for seed in range(NUM_SEEDS):
        world = World(replace(_scenario(seed), cancel=0.0))
        world.run()
        oldest = world.journal.records[0].session_id
        opened = [each for each in world.journal.records if isinstance(each, Opened)]
        assert sum(each.session_id == oldest for each in opened) == 1
        assert len(opened) >= len(world.clients.texts)
