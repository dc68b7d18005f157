"""What the state machines cost beside the models: microseconds per round and session.

    python -m benchmarks.kv_bookkeeping [--json FILE]

The verifier plans, launches and settles trees of 8 nodes for 16 sessions; the drafter runs steps
and takes commits in. No model runs, texts of several lengths stand in the KV. The cost must follow
the trees, not the texts.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from ssd.core.drafter import Drafter
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.expansion import Expansion
from ssd.core.growth import GrowthLimits, chain_limits
from ssd.core.ids import Epoch, SessionId
from ssd.core.keys import extend_key
from ssd.core.messages import Commit, Grow, Open
from ssd.core.price import CostModel
from ssd.core.verifier import Verifier
from ssd.core.verifier_limits import VerifierLimits
from ssd.core.verifier_round import Round
from ssd.core.verifier_session import VerifierSession

NUM_SESSIONS = 16
NUM_ROUNDS = 200
NUM_ACCEPTED = 3
CONTEXT_LENS = (64, 4096, 32768)
VOCAB_SIZE = 50_000
PEER = "verifier"


def token_at(position: int) -> int:
    """The text that every session says."""
    return (position * 7919 + 13) % VOCAB_SIZE


def _opening(index: int, text_len: int) -> Open:
    text = tuple(token_at(position) for position in range(text_len))
    max_len = text_len + 5 * NUM_ROUNDS
    return Open(SessionId(f"s{index}"), Epoch(1), text, text_len, max_len, cache_salt=None)


def _drafted(session: VerifierSession) -> Grow:
    """Three right tokens in a row, then a wrong one, and two wrong siblings beside each."""
    opening, key, position = session.opening, session.key, session.committed_len
    expansions = []
    for depth in range(NUM_ACCEPTED + 1):
        right = token_at(position + depth) if depth < NUM_ACCEPTED else 1
        candidates, estimates = (right, 2, 3), (0.8, 0.1, 0.05)
        expansions.append(Expansion(key, position + depth, candidates, estimates, step=position))
        key = extend_key(key, right)
    return Grow(opening.session_id, opening.epoch, position, tuple(expansions), is_exhausted=True)


def measure_verifier(text_len: int) -> list[float]:
    """Seconds of each round: what is planned, launched and settled."""
    limits = VerifierLimits(
        vocab_size=VOCAB_SIZE,
        context_len=2**20,
        kv_slots=NUM_SESSIONS * (text_len + 2000),
        max_rows=512,
    )
    core = Verifier(limits, CostModel([(1, 0.01), (9, 0.01)]))
    core.drafter_attached("drafter")
    for index in range(NUM_SESSIONS):
        core.open(_opening(index, text_len), owner="coordinator")
    seconds: list[float] = []
    now = 0.0
    while len(seconds) < NUM_ROUNDS:
        is_decoding = not any(each.is_prefilling for each in core.sessions.values())
        for session in core.sessions.values():
            if is_decoding:
                core.grow(_drafted(session), now=now)
        start = time.perf_counter()
        action = core.next_action(now)
        spent = time.perf_counter() - start
        assert isinstance(action, Round)
        target = [
            [token_at(share.rows.positions[row] + 1) for row in share.rows.wanted]
            for share in action.shares
        ]
        start = time.perf_counter()
        core.round_done(action, target, launch_s=now, end_s=now + 0.01)
        spent += time.perf_counter() - start
        now += 0.02
        if is_decoding:
            seconds.append(spent)
    return seconds


def measure_drafter(text_len: int) -> list[float]:
    """Seconds of the three steps between two commits of every session, commits included."""
    limits = DrafterLimits(
        context_len=2**20,
        kv_slots=NUM_SESSIONS * (text_len + 2000),
        growth=GrowthLimits(num_candidates=6, frontier=4 * NUM_SESSIONS),
        chain=chain_limits(4),
        max_rows=512,
    )
    core = Drafter(limits)
    for index in range(NUM_SESSIONS):
        core.open(_opening(index, text_len), peer=PEER)
    seconds: list[float] = []
    while len(seconds) < NUM_ROUNDS:
        spent = sum(_step(core) for _ in range(3))
        if any(session.tree.uncovered for session in core.sessions.values()):
            continue
        commits = [_commit(core, key) for key in core.sessions]
        start = time.perf_counter()
        for commit in commits:
            core.commit(commit, peer=PEER)
        seconds.append(spent + time.perf_counter() - start)
    return seconds


def _step(core: Drafter) -> float:
    start = time.perf_counter()
    step = core.next_step()
    spent = time.perf_counter() - start
    if step is None:
        return spent
    nodes = [node for share in step.shares for node in share.nodes]
    estimates = (0.8, 0.1, 0.05, 0.02, 0.01, 0.01)
    found = [((token_at(node.position + 1), 2, 3, 4, 5, 6), estimates) for node in nodes]
    start = time.perf_counter()
    core.step_done(step, found, start_s=0.0, end_s=0.001)
    return spent + time.perf_counter() - start


def _commit(core: Drafter, key: tuple[str, SessionId]) -> Commit:
    session = core.sessions[key]
    base_len, opening = session.committed_len, session.opening
    tokens = tuple(token_at(base_len + offset) for offset in range(NUM_ACCEPTED + 1))
    return Commit(opening.session_id, opening.epoch, base_len, session.tree.cursor.key, tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    sides: dict[str, Callable[[int], list[float]]] = {
        "verifier": measure_verifier,
        "drafter": measure_drafter,
    }
    results = []
    for side, measure in sides.items():
        for text_len in CONTEXT_LENS:
            micros = sorted(1e6 * each / NUM_SESSIONS for each in measure(text_len)[50:])
            result = {
                "side": side,
                "context": text_len,
                "median_us": round(statistics.median(micros), 1),
                "p90_us": round(micros[len(micros) * 9 // 10], 1),
            }
            results.append(result)
            print(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
