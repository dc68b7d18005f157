"""The event loop of a simulated pair: one verifier, its drafters, and messages between them."""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from ssd.core.draft_step import Step
from ssd.core.drafter import Drafter
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.drafter_outputs import Output as DrafterOutput
from ssd.core.drafter_outputs import ToVerifier
from ssd.core.expansion import Expansion
from ssd.core.growth import chain_limits
from ssd.core.ids import Epoch, PrefixKey, SessionId
from ssd.core.keys import extend_key
from ssd.core.messages import Close, Commit, Grow, Open, Rates
from ssd.core.mode import Mode
from ssd.core.price import CostModel
from ssd.core.rounds import Lookup, RoundRecord
from ssd.core.sampling_params import SamplingParams
from ssd.core.speculation_control import ControlLimits
from ssd.core.verifier import Verifier
from ssd.core.verifier_limits import VerifierLimits
from ssd.core.verifier_outputs import Output as VerifierOutput
from ssd.core.verifier_outputs import ToCoordinator, ToDrafter
from ssd.core.verifier_round import Idle, Round, Share
from ssd.simulate.scenario import Outcome, Scenario
from ssd.simulate.synthetic_text import VOCAB_SIZE

_PROMPT_LEN = 16
_PLENTY = 1 << 40  # no simulated forward runs out of KV or context
_PEER = "verifier"
_GREEDY = SamplingParams(temperature=0.0)


Order = Open | Commit | Close | Rates


def simulate(scenario: Scenario) -> Outcome:
    """Run every session of the scenario to its end, deterministically."""
    world = _World(scenario)
    world.run()
    return world.outcome()


class _World:
    """The clock and the queue of what is still to happen."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        names = [f"drafter-{index}" for index in range(scenario.num_drafters)]
        self.drafters = {name: _DrafterProcess(self, name) for name in names}
        self.verifier = _VerifierProcess(self)

    def after(self, delay_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay_s, next(self._order), event))

    def run(self) -> None:
        self.verifier.start()
        while self._queue and self.verifier.core.sessions:
            self.now, _, event = heapq.heappop(self._queue)
            event()

    def outcome(self) -> Outcome:
        records = self.verifier.records
        launches = {each.round_id: (each.launch_ns, each.end_ns) for each in records}
        seconds = (records[-1].end_ns - records[0].launch_ns) / 1e9
        num_tokens = self.scenario.num_sessions * self.scenario.num_tokens
        asked = [each.lookup for each in records if each.lookup is not Lookup.LAST]
        is_drafted = self.scenario.mode is not Mode.AR
        return Outcome(
            tokens_per_s=num_tokens / seconds,
            tokens_per_round=num_tokens / len(records),
            hit_rate=asked.count(Lookup.HIT) / len(asked) if is_drafted and asked else None,
            verifier_busy=sum(end - start for start, end in launches.values()) / 1e9 / seconds,
            num_rounds=len(launches),
        )


class _VerifierProcess:
    """Drives the verifier's core; a forward takes the time that the cost model says."""

    def __init__(self, world: _World) -> None:
        scenario = world.scenario
        self.records: list[RoundRecord] = []
        self._world = world
        self._costs = scenario.costs
        self._is_busy = False
        self._awaits_answer = False
        limits = VerifierLimits(
            vocab_size=VOCAB_SIZE,
            context_len=_PLENTY,
            kv_slots=_PLENTY,
            max_nodes=scenario.max_nodes,
            max_rows=max(256, 2 * scenario.num_sessions),
            sd_depth=scenario.chain_depth,
            control=ControlLimits(is_on=scenario.may_pause),
        )
        warm_up = [(rows, self._costs.verification_s(rows)) for rows in (1, 4, 16)]
        self.core = Verifier(limits, CostModel(warm_up))

    def start(self) -> None:
        """Attach the drafters and open every session."""
        for name in self._world.drafters:
            self._pass_on(self.core.drafter_attached(name))
        for number in range(self._world.scenario.num_sessions):
            self._pass_on(self.core.open(self._opening(number), owner="coordinator"))
        self._go_on()

    def receive(self, message: Grow) -> None:
        if self._world.scenario.in_step:
            message = replace(message, expansions=tuple(map(_best_alone, message.expansions)))
        self._pass_on(self.core.grow(message, now=self._world.now))
        self._go_on()

    def answered(self) -> None:
        """In step: the drafter has taken the last commit in."""
        self._awaits_answer = False
        self._go_on()

    def _opening(self, number: int) -> Open:
        scenario = self._world.scenario
        prompt = tuple(number * _PROMPT_LEN + index for index in range(_PROMPT_LEN))
        return Open(
            session_id=SessionId(f"s{number}"),
            epoch=Epoch(1),
            token_ids=prompt,
            prompt_len=_PROMPT_LEN,
            max_len=_PROMPT_LEN + scenario.num_tokens,
            params=_GREEDY,
            mode=Mode.SD if scenario.in_step else scenario.mode,
        )

    def _go_on(self) -> None:
        if self._is_busy or self._awaits_answer:
            return
        action = self.core.next_action(self._world.now)
        if isinstance(action, Round):
            self._is_busy = True
            finished = partial(self._finished, action, self._world.now)
            self._world.after(self._costs.verification_s(action.num_rows), finished)
        elif isinstance(action, Idle) and action.until is not None:
            self._world.after(max(action.until - self._world.now, 0.0), self._go_on)

    def _finished(self, done: Round, launch_s: float) -> None:
        token_ids = [self._target_tokens(share) for share in done.shares]
        now = self._world.now
        self._pass_on(self.core.round_done(done, token_ids, launch_s=launch_s, end_s=now))
        self._world.after(self._costs.overhead_s, self._freed)

    def _freed(self) -> None:
        self._is_busy = False
        self._go_on()

    def _target_tokens(self, share: Share) -> list[int]:
        """The target's token after every node of the tree; none after a prefill chunk."""
        if share.planned is None:
            return []
        tree, keys = share.planned.tree, [share.session.key]
        for token_id, parent in zip(tree.token_ids[1:], tree.parents[1:], strict=True):
            keys.append(extend_key(keys[parent], token_id))
        return [self._world.scenario.text.next_token(key) for key in keys]

    def _pass_on(self, outputs: Iterable[VerifierOutput]) -> None:
        for output in outputs:
            if isinstance(output, ToCoordinator) and isinstance(output.message, Commit):
                assert output.message.record is not None
                self._awaits_answer = self._world.scenario.in_step
                self.records.append(output.message.record)
            elif isinstance(output, ToDrafter):
                for name, drafter in self._world.drafters.items():
                    if output.drafter_id in (None, name):
                        event = partial(drafter.receive, output.message)
                        self._world.after(self._costs.delay_s, event)


class _DrafterProcess:
    """Drives one drafter's core; what the draft would say comes from the synthetic text."""

    def __init__(self, world: _World, name: str) -> None:
        scenario = world.scenario
        self._world = world
        self._name = name
        self._costs = scenario.costs
        self._is_busy = False
        self._owes_glue = False
        self._steps_left = 0  # in step: of the batch at hand
        self._inbox: deque[Order] = deque()
        chain = chain_limits(scenario.chain_depth)
        # In step a batch is as wide as its limits say, whatever it costs.
        steps = [(rows, self._costs.growth_step_s(rows)) for rows in (1, 4, 16)]
        cost = None if scenario.in_step else CostModel(steps)
        self.core = Drafter(DrafterLimits(_PLENTY, _PLENTY, scenario.growth, chain), cost=cost)

    def receive(self, message: Order) -> None:
        self._inbox.append(message)
        self._go_on()

    def _take(self, message: Order) -> None:
        match message:
            case Open():
                # In step the verifier waits as in mode `sd`; the drafter grows ahead all the same.
                opening = replace(message, mode=self._world.scenario.mode)
                self._pass_on(self.core.open(opening, peer=_PEER))
            case Commit():
                self._owes_glue = True
                self._pass_on(self.core.commit(message, peer=_PEER))
                self._begin_batch(message.session_id)
            case Close():
                self._pass_on(self.core.close(message, peer=_PEER))
            case Rates():
                self._pass_on(self.core.rates_updated(message))

    def _begin_batch(self, session_id: SessionId) -> None:
        """In step: answer, then grow one speculation, and first the missing one after a miss."""
        if not self._world.scenario.in_step:
            return
        is_miss = not self.core.sessions[_PEER, session_id].tree.cursor.is_expanded
        self._steps_left = self._world.scenario.chain_depth * (2 if is_miss else 1)
        self._world.after(self._costs.delay_s, self._world.verifier.answered)

    def _go_on(self) -> None:
        if self._is_busy:
            return
        while self._inbox and not self._steps_left:
            self._take(self._inbox.popleft())
        step = self.core.next_step()
        if step is None:
            if self._steps_left:
                self._steps_left = 0
                self._go_on()
            return
        self._steps_left = max(self._steps_left - 1, 0)
        self._is_busy = True
        num_rows = sum(len(group.token_ids) for group in step.groups)
        seconds = self._costs.growth_step_s(num_rows) + self._costs.glue_s * self._owes_glue
        self._owes_glue = False
        self._world.after(seconds, partial(self._finished, step, self._world.now))

    def _finished(self, step: Step, start_s: float) -> None:
        candidates = [self._candidates(key) for key in _keys(step)]
        now = self._world.now
        self._pass_on(self.core.step_done(step, candidates, start_s=start_s, end_s=now))
        self._is_busy = False
        self._go_on()

    def _candidates(self, key: PrefixKey) -> tuple[Sequence[int], Sequence[float]]:
        scenario = self._world.scenario
        return scenario.text.candidates(key, scenario.growth.num_candidates)

    def _pass_on(self, outputs: Iterable[DrafterOutput]) -> None:
        for output in outputs:
            if isinstance(output, ToVerifier) and isinstance(output.message, Grow):
                event = partial(self._world.verifier.receive, output.message)
                self._world.after(self._costs.delay_s, event)


def _best_alone(expansion: Expansion) -> Expansion:
    """The paper verifies a chain: of the candidates only the first is proposed."""
    return replace(expansion, token_ids=expansion.token_ids[:1], estimates=expansion.estimates[:1])


def _keys(step: Step) -> list[PrefixKey]:
    return [node.key for share in step.shares for node in share.nodes]
