"""Which trees the next verification has, which rows ride along, and whether it starts now.

A tree's node is worth its row if its reach, over the time of one more row, earns at least what
rounds earned lately (`Price`); a round waits for one more growth step by the same measure.
"""

import math
from collections.abc import Callable, Sequence

from ssd.core.cost_model import CostModel, ForwardSize
from ssd.core.launch import DrafterPace, Patience, share_to_beat
from ssd.core.mode import Mode
from ssd.core.plain_probes import PlainProbes
from ssd.core.price import Price
from ssd.core.read_off import PlannedTree, read_off
from ssd.core.rounds import GrowthSpan
from ssd.core.source_rates import SourceRates
from ssd.core.verifier_limits import VerifierLimits
from ssd.core.verifier_round import Round, Share
from ssd.core.verifier_session import VerifierSession

Plan = Sequence[tuple[VerifierSession, PlannedTree]]


class RoundPlanner:
    """Owns what planning learns: prices, how often each rank of candidates came true, and how fast
    the drafter is. Times are seconds of the verifier's clock."""

    def __init__(self, limits: VerifierLimits, cost: CostModel) -> None:
        self.cost = cost
        self.num_rounds = 0
        self._limits = limits
        self._price = Price(plain_round_s=cost.forward_s(1))
        self._rates, self._ratio_rates = SourceRates(), SourceRates()
        self._pace = DrafterPace()
        self._patience = Patience(self._pace)
        self._probes = PlainProbes()
        self._is_probe = False  # what was planned last
        self._ready_s: float | None = None  # since when a round could have been launched
        self._waits_since: float | None = None  # for drafts

    # ── what it learns ────────────────────────────────────────────────────────────────────────

    def rates_of(self, session: VerifierSession) -> SourceRates:
        """The counts that rank this session's candidates."""
        return self._rates if session.opening.params.is_coupled else self._ratio_rates

    @property
    def rates(self) -> tuple[SourceRates, SourceRates]:
        """Counts under the coupled rule, and under rule `ratio`."""
        return self._rates, self._ratio_rates

    def message_arrived(self, now: float) -> None:
        self._patience.arrived(now)

    def grew(self, spans: Sequence[GrowthSpan]) -> None:
        self._pace.grew(spans)

    def round_done(self, done: Round, num_tokens: int, *, launch_s: float, end_s: float) -> None:
        """A round brought `num_tokens`; the next could start at once."""
        self.cost.observe(ForwardSize.of(done.groups), end_s - launch_s)
        if num_tokens:
            self._price.observe(num_tokens, end_s - done.ready_s)
        self._ready_s = end_s

    def prices(self, done: Round) -> tuple[float, float]:
        """In tokens: of one more row in a round, and of one session's share of its waiting."""
        decoding = [share.session for share in done.shares if share.planned is not None]
        earned = self._price.tokens_per_s
        waited_s = done.waited_s / max(len(decoding), 1)
        return earned * self._row_s(decoding), earned * waited_s

    # ── what it decides ───────────────────────────────────────────────────────────────────────

    def nothing_to_do(self) -> None:
        """No session wants a round: time until one does is nobody's waiting."""
        self._ready_s = None

    def could_start(self, now: float) -> None:
        if self._ready_s is None:
            self._ready_s = now

    def plan(self, running: Sequence[VerifierSession]) -> Plan:
        """A tree for each decoding session: the whole chain in mode `sd`, else what is worth its
        rows. While prefill is queued half of the row budget is kept for it."""
        decoding = [each for each in running if not each.is_prefilling]
        chains = [each for each in decoding if self._is_chain(each)]
        trees = [each for each in decoding if not self._is_chain(each)]
        is_prefilling = len(decoding) < len(running)
        budget = self._limits.max_rows // 2 if is_prefilling else self._limits.max_rows
        self._is_probe = self._probes.is_due and bool(trees) and not chains
        price = math.inf if self._is_probe else self._price.tokens_per_s
        room = max(budget - len(decoding), 0)
        chain_soils = [
            each.soil(self.rates_of(each), max_nodes=self._limits.sd_depth) for each in chains
        ]
        planned = read_off(chain_soils, max_nodes=room, is_worth=lambda *_: True)
        room -= sum(each.tree.num_nodes - 1 for each in planned)
        tree_soils = [
            each.soil(self.rates_of(each), max_nodes=self._max_nodes(each)) for each in trees
        ]
        is_worth = self._worth_a_row(decoding, price, num_taken=budget - len(decoding) - room)
        planned += read_off(tree_soils, max_nodes=room, is_worth=is_worth)
        return list(zip((*chains, *trees), planned, strict=True))

    def wait_until(self, planned: Plan, now: float) -> float | None:
        """When to ask again because waiting for drafts pays, or None to start now."""
        until = self._wait_for_chains(planned, now)
        if until is None:
            until = self._wait_while_it_pays(planned, now)
        if until is not None and self._waits_since is None:
            self._waits_since = now
        return until

    def launch(self, planned: Plan, running: Sequence[VerifierSession], now: float) -> Round:
        """Pack the trees and, in what is left of the row budget, prefill chunks."""
        self._begin_shadows([session for session, _ in planned])
        shares = [Share(each, each.tree_rows(plan.tree), plan) for each, plan in planned]
        room = self._limits.max_rows - sum(len(share.rows.token_ids) for share in shares)
        prefilling = [each for each in running if each.is_prefilling]
        prefilling.sort(key=lambda each: each.committed_len - each.kv_len)
        for index, session in enumerate(prefilling):  # what short texts leave, long ones take
            if room > 0:
                share = self._prefill(session, max(room // (len(prefilling) - index), 1))
                room -= len(share.rows.token_ids)
                shares.append(share)
        self.num_rounds += 1
        self._patience = Patience(self._pace)
        assert self._ready_s is not None
        is_drafted = any(plan.tree.num_nodes > 1 for _, plan in planned)
        self._probes.launched(is_drafted=is_drafted, is_probe=self._is_probe)
        waited_s = 0.0 if self._waits_since is None else now - self._waits_since
        self._waits_since = None
        return Round(
            self.num_rounds, tuple(shares), self._ready_s, waited_s, is_probe=self._is_probe
        )

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _prefill(self, session: VerifierSession, max_rows: int) -> Share:
        """A chunk of text; the last brings the root along, whose own round would come too late."""
        num_missing = session.committed_len - session.kv_len
        if num_missing > max_rows or session.wants_prompt_logprobs:
            return Share(session, session.prefill_rows(max_rows), None)
        soil = session.soil(self.rates_of(session), max_nodes=0)
        [bare] = read_off([soil], max_nodes=0, is_worth=lambda *_: False)
        if session.shadow is not None:
            session.shadow.begin(bare)
        return Share(session, session.tree_rows(bare.tree), bare)

    def _max_nodes(self, session: VerifierSession) -> int:
        return self._limits.max_nodes if session.opening.mode.verifies_drafts else 0

    def _begin_shadows(self, decoding: Sequence[VerifierSession]) -> None:
        """Read off the trees that this round would verify, were its sessions not in the shadow."""
        is_worth = self._worth_a_row(decoding, self._price.tokens_per_s)
        for session in decoding:
            if session.shadow is not None and session.shadow.wants_tree:
                soil = session.shadow_soil(self.rates_of(session), max_nodes=self._limits.max_nodes)
                room = max(self._limits.max_rows - len(decoding), 0)
                trees = read_off([soil], max_nodes=room, is_worth=is_worth)
                session.shadow.begin(trees[0])

    def _is_chain(self, session: VerifierSession) -> bool:
        return session.opening.mode is Mode.SD and not self._limits.sd_is_tree

    def _worth_a_row(
        self, sessions: Sequence[VerifierSession], price: float, *, num_taken: int = 0
    ) -> Callable[[float, int], bool]:
        """Whether a reach is worth one more row beside so many nodes, above these sessions' roots
        and `num_taken` rows."""
        cheap = dear = price * self._row_s(sessions)
        if len(sessions) < self.cost.knee:
            dear += price * self.cost.above_knee_s
        num_cheap = self.cost.knee - len(sessions) - num_taken
        return lambda reach, num_nodes: reach >= (cheap if num_nodes < num_cheap else dear)

    def _row_s(self, sessions: Sequence[VerifierSession]) -> float:
        """Seconds of one more row above the roots, over a text of middling length."""
        if not sessions:
            return 0.0
        pairs = sum(each.committed_len for each in sessions)
        roots = ForwardSize(len(sessions), pairs)
        return self.cost.row_s(roots, length=pairs // len(sessions))

    def _wait_while_it_pays(self, planned: Plan, now: float) -> float | None:
        sessions = [session for session, _ in planned]
        floor = self._price.tokens_per_s * self._row_s(sessions)
        promise = sum(
            max(tree.open_reach * session.first_rate(self.rates_of(session)) - floor, 0.0)
            for session, tree in planned
            if session.opening.mode is Mode.SSD and session.expects_growth
        )
        # A round launched now may earn more than rounds did lately, and waiting must beat both: a
        # verifier that waited too long would otherwise find waiting cheap for ever.
        sizes = [(tree.tree.num_nodes, session.committed_len) for session, tree in planned]
        size = ForwardSize(sum(rows for rows, _ in sizes), sum(rows * len_ for rows, len_ in sizes))
        forward_s = self.cost.forward_s(size)
        at_once = sum(1.0 + tree.reach for _, tree in planned) / forward_s
        price = max(self._price.tokens_per_s, at_once)
        return self._patience.wait_until(
            now, promise=promise, tokens_per_s=price * share_to_beat(self._pace.step_s, forward_s)
        )

    def _wait_for_chains(self, planned: Plan, now: float) -> float | None:
        """Mode `sd` waits, in lock-step, until every chain has its depth or the drafter is done."""
        unfinished = [
            session
            for session, tree in planned
            if session.opening.mode is Mode.SD
            and session.expects_growth
            and tree.depth < min(self._limits.sd_depth, session.draft_room)
        ]
        ready_s = now if self._ready_s is None else self._ready_s
        deadline = ready_s + self._limits.sd_patience_s
        if now < deadline:
            return deadline if unfinished else None
        for session in unfinished:  # a lost message costs one wait, not one in every round
            session.is_unheard = True
        return None
