"""Any value that the services may tell each other, for hypothesis."""

from hypothesis import strategies as st

from ssd.core.credit import Credit
from ssd.core.drafter_kind import DrafterKind, DrafterState
from ssd.core.edge_rates import NUM_CELLS
from ssd.core.expansion import Expansion
from ssd.core.features import FeatureDtype, Features
from ssd.core.ids import Epoch, PrefixKey, SessionId
from ssd.core.keys import MODULUS
from ssd.core.ledger import Ledger, LedgerEntry
from ssd.core.logprobs import MAX_TOP, LogprobsWanted, TokenLogprobs
from ssd.core.messages import (
    Close,
    Commit,
    Finished,
    FinishReason,
    Grow,
    Need,
    Open,
    Rates,
    Refused,
)
from ssd.core.mode import Mode
from ssd.core.rounds import DrafterPart, GrowthSpan, Lookup, RoundRecord, ShadowRound, WhyPlain
from ssd.core.rule import Rule
from ssd.core.sampling_params import MAX_SEED, SamplingParams
from ssd.core.sparse_law import SparseLaw
from ssd.core.speculation_limits import SpeculationLimits

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
# What a float field holds exactly: estimates and counts travel in single precision.
estimates = st.floats(0.0, 1.0, width=32)
session_ids = st.text(max_size=20).map(SessionId)
epochs = u64.map(Epoch)
keys = st.integers(0, MODULUS - 1).map(PrefixKey)
token_lists = st.lists(u32, max_size=20).map(tuple)

params = st.builds(
    SamplingParams,
    temperature=st.floats(0.0, 2.0),
    top_k=u32,
    top_p=st.floats(0.0, 1.0, exclude_min=True),
    min_p=st.floats(0.0, 1.0, exclude_max=True),
    seed=st.integers(0, MAX_SEED),
    rule=st.sampled_from(Rule),
    repetition_penalty=st.floats(0.01, 100.0),
    presence_penalty=st.floats(-2.0, 2.0),
    frequency_penalty=st.floats(-2.0, 2.0),
    logit_bias=st.dictionaries(u32, st.floats(-100.0, 100.0), max_size=4).map(
        lambda biases: tuple(biases.items())
    ),
    banned_sequences=st.lists(st.lists(u32, min_size=1, max_size=4).map(tuple), max_size=4).map(
        tuple
    ),
    min_tokens=u32,
    end_token_ids=st.lists(u32, max_size=4).map(tuple),
)
openings = st.builds(
    Open,
    session_id=session_ids,
    epoch=epochs,
    token_ids=token_lists,
    prompt_len=u32,
    max_len=u32,
    params=params,
    stop_token_ids=st.frozensets(u32, max_size=8),
    mode=st.sampled_from(Mode),
    speculation=st.builds(
        SpeculationLimits,
        max_nodes=st.none() | st.integers(1, 2**32 - 1),
        max_depth=st.none() | st.integers(1, 2**32 - 1),
        drafters=st.none() | st.frozensets(st.sampled_from(DrafterKind), min_size=1),
    ),
    logprobs=st.builds(
        LogprobsWanted,
        output_top=st.none() | st.integers(0, MAX_TOP),
        prompt_top=st.none() | st.integers(0, MAX_TOP),
    ),
    cache_salt=st.none() | st.text(max_size=20),
)
any_logprob = st.floats(max_value=0.0, allow_nan=False)
logprob_lists = st.lists(
    st.builds(
        TokenLogprobs,
        any_logprob,
        st.lists(st.tuples(u32, any_logprob), max_size=3).map(tuple),
    ),
    max_size=4,
).map(tuple)
closes = st.builds(Close, session_ids, epochs)
records = st.builds(
    RoundRecord,
    round_id=u64,
    base_len=u32,
    launch_ns=u64,
    end_ns=u64,
    wait_ns=u64,
    num_proposed=u32,
    num_accepted=u32,
    num_tested=u32,
    num_batch_rows=u32,
    lookup=st.sampled_from(Lookup),
    verified_steps=st.lists(u64, max_size=5).map(tuple),
    why_plain=st.none() | st.sampled_from(WhyPlain),
    num_cached=u32,
    drafters=st.lists(
        st.builds(
            DrafterPart, st.sampled_from(DrafterKind), u32, u32, st.sampled_from(DrafterState)
        ),
        max_size=3,
    ).map(tuple),
    shadow=st.none() | st.builds(ShadowRound, u32, u32, u32, u32, st.sampled_from(Lookup)),
)
spans = st.lists(st.builds(GrowthSpan, u64, u32, u64, u64, u32), max_size=4).map(tuple)
features = st.builds(
    lambda rows, width, dtype: Features(
        (rows, width), dtype, bytes(rows * width * dtype.num_bytes)
    ),
    st.integers(0, 4),
    st.integers(0, 5),
    st.sampled_from(FeatureDtype),
)
commits = st.builds(
    Commit,
    session_id=session_ids,
    epoch=epochs,
    base_len=u32,
    base_key=keys,
    token_ids=token_lists,
    record=st.none() | records,
    growth=spans,
    logprobs=logprob_lists,
    prompt_logprobs=logprob_lists,
    features=st.none() | features,
)
finishes = st.builds(Finished, session_ids, epochs, u32, st.sampled_from(FinishReason))
refusals = st.builds(Refused, session_ids, epochs, st.text(max_size=20), st.text(max_size=60))
needs = st.builds(Need, session_ids, epochs, u32)
ledger_entries = st.builds(LedgerEntry, session_ids, epochs, u32, keys, u32, u64, st.booleans())
credits = st.builds(Credit, u32, u64, u32)
ledgers = st.builds(
    Ledger, u64, st.lists(ledger_entries, max_size=4).map(tuple), st.none() | credits
)
counts = st.lists(st.floats(0.0, 2.0**20, width=32), min_size=NUM_CELLS, max_size=NUM_CELLS).map(
    tuple
)
rates = st.builds(Rates, counts, counts, st.sampled_from(Rule))


laws = st.lists(st.tuples(u32, estimates), min_size=1, max_size=6).map(
    lambda rows: SparseLaw.pack([row[0] for row in rows], [row[1] for row in rows])
)


@st.composite
def expansions(draw: st.DrawFn, *, is_sampled: bool) -> Expansion:
    candidates = draw(st.lists(st.tuples(u32, estimates), max_size=6))
    return Expansion(
        key=draw(keys),
        position=draw(u32),
        token_ids=tuple(token_id for token_id, _ in candidates),
        estimates=tuple(estimate for _, estimate in candidates),
        step=draw(u64),
        num_proposals=draw(u32) if is_sampled else None,
        law=draw(st.none() | laws) if is_sampled else None,
    )


grows = st.builds(
    Grow,
    session_id=session_ids,
    epoch=epochs,
    base_len=u32,
    # All expansions of a session are sampled, or none is.
    expansions=st.lists(expansions(is_sampled=False), max_size=6).map(tuple)
    | st.lists(expansions(is_sampled=True), max_size=6).map(tuple),
    is_exhausted=st.booleans(),
    spans=spans,
)
