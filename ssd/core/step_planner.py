"""Which rows the drafter's next forward has.

In this order: committed text without KV, then nodes by reach. A cursor has reach 1, so a session
whose verifier waits for a first expansion comes before any deeper growth; equal reach goes to the
session served longest ago.
"""

from collections.abc import Sequence

from ssd.core.cost_model import CostModel
from ssd.core.draft_session import DraftSession
from ssd.core.draft_step import StepShare
from ssd.core.draft_tree import DraftNode
from ssd.core.drafter_limits import DrafterLimits
from ssd.core.growth import num_worth_running
from ssd.core.ids import SlotSet
from ssd.core.mode import Mode
from ssd.core.rows import RowGroup

_FEW = 16  # more uncovered tokens than a commit brings are a prompt

_Offer = tuple[float, int, int, DraftSession, DraftNode]
"""(-reach, the session's last step, number, session, node): sorted, best first."""


class StepPlanner:
    """Without a cost model a step is as wide as the limits allow."""

    def __init__(self, limits: DrafterLimits, cost: CostModel | None) -> None:
        self._limits = limits
        self._cost = cost

    def shares(self, working: Sequence[DraftSession]) -> list[StepShare]:
        """The rows of one step over these sessions; none when nothing is worth growing."""
        chosen = self._choose(working)
        eager = [each for each in working if id(each) in chosen or self._is_behind(each)]
        room = prompt_room = self._limits.max_rows
        if len(eager) > 1:
            prompt_room = self._limits.prefill_rows
        shares: list[StepShare] = []
        for session in eager:
            tree, nodes = session.tree, chosen.get(id(session), [])
            is_prompt = len(tree.uncovered) > _FEW
            limit = min(room, prompt_room) if is_prompt else room
            if limit > 0:
                share = self._share(session, nodes, limit)
                room -= len(share.rows.token_ids)
                prompt_room -= len(share.rows.token_ids) * is_prompt
                shares.append(share)
            else:
                for node in nodes:
                    tree.put_back(node)
        return shares

    def has_work(self, session: DraftSession) -> bool:
        """Whether anything runs for the text as it stands, or is worth running."""
        if not all(node.is_dropped for node in session.running):
            return True
        growth = self._limits.growth
        least = 0.0 if _is_waited_for(session) else growth.min_step_reach
        offered = self._offer(session, 1)
        if offered and offered[0][0] < least:  # seldom: the best node is mostly enough
            offered += self._offer(session, growth.frontier - 1)
        for _, node in offered:
            session.tree.put_back(node)
        return bool(offered) and sum(reach for reach, _ in offered) >= least

    def _choose(self, sessions: Sequence[DraftSession]) -> dict[int, list[DraftNode]]:
        """The frontier nodes of the next step by session, best first over all sessions."""
        offers: list[_Offer] = []
        num_urgent = sum(_is_waited_for(each) for each in sessions)
        growth = self._limits.growth
        width = max(growth.urgent_frontier if num_urgent else growth.frontier, num_urgent)
        for session in sessions:
            for reach, node in self._offer(session, min(width, session.limits.frontier)):
                offers.append((-reach, session.last_step, len(offers), session, node))
        offers.sort(key=_by_reach)
        chosen: dict[int, list[DraftNode]] = {}
        if num_urgent:  # while nobody waits, a row in this step is cheaper than one in the next
            width = self._worth_running(offers[:width])
        elif sum(-minus_reach for minus_reach, *_ in offers[:width]) < growth.min_step_reach:
            width = 0
        for _, _, _, session, node in offers[:width]:
            chosen.setdefault(id(session), []).append(node)
        for _, _, _, session, node in offers[width:]:
            session.tree.put_back(node)
        return chosen

    def _worth_running(self, offers: Sequence[_Offer]) -> int:
        """How many of these offers one step should run, best first."""
        if self._cost is None:
            return len(offers)
        rows = [(-minus_reach, session.committed_len) for minus_reach, _, _, session, _ in offers]
        return num_worth_running(rows, self._cost)

    def _offer(self, session: DraftSession, num_nodes: int) -> list[tuple[float, DraftNode]]:
        """Pop the session's best runnable nodes, each with its reach.

        What may not run now stays on its frontier.
        """
        tree, limits = session.tree, session.limits
        taken: list[tuple[float, DraftNode]] = []
        not_now: list[DraftNode] = []
        room = min(num_nodes, limits.max_nodes - tree.slots.num_live, tree.slots.num_free)
        end = self._end_of(session)
        while len(taken) < room:
            node = tree.pop_best(min_reach=limits.min_reach)
            if node is None:
                break
            if node.position < end:
                taken.append((tree.reach_of(node), node))
            else:
                not_now.append(node)
        for node in not_now:
            tree.put_back(node)
        return taken

    def _end_of(self, session: DraftSession) -> int:
        """Candidates of nodes from this position on are of no use: too far, or past the end."""
        too_deep = session.tree.cursor.position + session.limits.max_depth
        return min(too_deep, self._limits.context_len, session.opening.max_len - 2)

    def _is_behind(self, session: DraftSession) -> bool:
        """Whether committed text waits for its rows, and they would be of use."""
        return bool(session.tree.uncovered) and session.tree.cursor.position < self._end_of(session)

    def _share(self, session: DraftSession, nodes: Sequence[DraftNode], room: int) -> StepShare:
        """Rows for uncovered text, and for the nodes if all text before them is covered then."""
        tree = session.tree
        past_len = tree.kv_len
        covered = tree.run_uncovered(min(room, len(tree.uncovered)))
        num_covered = len(covered.token_ids)
        runs = list(nodes[: room - num_covered]) if not tree.uncovered else []
        for node in nodes[len(runs) :]:
            tree.put_back(node)
        slots = [tree.run(node) for node in runs]
        all_covered = (1 << num_covered) - 1
        seen = [SlotSet(tree.seen_by(node) << num_covered | all_covered) for node in runs]
        rows = RowGroup(
            kv_id=session.kv_id,
            token_ids=(*covered.token_ids, *(node.token_id for node in runs)),
            positions=(*covered.positions, *(node.position for node in runs)),
            past_len=past_len,
            slots=(*covered.positions, *slots),
            visible=(*covered.visible, *seen),
            wanted=tuple(range(num_covered, num_covered + len(runs))),
            moves=tree.slots.take_moves(),
            held=tree.slots.capacity,
        )
        return StepShare(session, rows, tuple(runs))


def _is_waited_for(session: DraftSession) -> bool:
    """Whether its verifier may be waiting for the next step."""
    is_chain = session.opening.mode is Mode.SD
    return session.is_urgent or (is_chain and not session.is_exhausted)


def _by_reach(offer: _Offer) -> tuple[float, int, int]:
    return offer[:3]
