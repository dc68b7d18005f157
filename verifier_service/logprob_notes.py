"""Log-probabilities of the rounds whose requests want them, put into their commits.

Nothing happens for a round without such a request.
"""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from ssd.core.ids import SessionId
from ssd.core.logprobs import LogprobsWanted, TokenLogprobs
from ssd.core.messages import Commit
from ssd.core.tree import ROOT, TokenTree
from ssd.core.verifier_outputs import Output, ToCoordinator
from ssd.core.verifier_round import Round, Share
from ssd.sampling import DrawSpec, edit_logits, token_logprobs

_Tree = tuple[TokenTree, list[TokenLogprobs]]


class LogprobNotes:
    """Owned by the engine thread: notes of the last round, and of prompts until they commit."""

    def __init__(self) -> None:
        self._trees: dict[SessionId, _Tree] = {}
        self._prompts: dict[SessionId, list[TokenLogprobs]] = {}

    def note(
        self, done: Round, logits: Tensor, draws: Sequence[DrawSpec], token_ids: Sequence[int]
    ) -> None:
        """Read what is wanted off a round's `[wanted rows, vocab]` logits and its draws."""
        self._trees.clear()
        start = 0
        for share in done.shares:
            end = start + len(share.rows.wanted)
            if end > start and share.session.opening.logprobs != LogprobsWanted():
                rows = slice(start, end)
                self._note_share(share, logits[rows], draws[rows], token_ids[rows])
            start = end

    def attach(self, outputs: Sequence[Output]) -> list[Output]:
        """The outputs of the round, with log-probabilities in the commits that want them."""
        if not self._trees and not self._prompts:
            return list(outputs)
        return [self._attached(output) for output in outputs]

    def forget(self, session_id: SessionId) -> None:
        self._trees.pop(session_id, None)
        self._prompts.pop(session_id, None)

    def _note_share(
        self, share: Share, logits: Tensor, draws: Sequence[DrawSpec], token_ids: Sequence[int]
    ) -> None:
        session, wanted = share.session, share.session.opening.logprobs
        session_id = session.opening.session_id
        if share.planned is None and wanted.prompt_top is not None:
            first = share.rows.positions[0] + 1
            said = session.token_ids[first : first + len(share.rows.token_ids)]
            found = token_logprobs(logits, said, num_top=wanted.prompt_top)
            self._prompts.setdefault(session_id, []).extend(found)
        elif share.planned is not None and wanted.output_top is not None:
            edited = edit_logits(logits, draws)
            found = token_logprobs(edited, token_ids, num_top=wanted.output_top)
            self._trees[session_id] = (share.planned.tree, found)

    def _attached(self, output: Output) -> Output:
        if not isinstance(output, ToCoordinator) or not isinstance(output.message, Commit):
            return output
        commit = output.message
        prompt = tuple(self._prompts.pop(commit.session_id, ()))
        tree = self._trees.get(commit.session_id)
        own = _along(tree, commit.token_ids) if tree is not None else ()
        return replace(output, message=replace(commit, logprobs=own, prompt_logprobs=prompt))


def _along(noted: _Tree, token_ids: Sequence[int]) -> tuple[TokenLogprobs, ...]:
    """Those of the tokens of a commit: each was drawn at the node that the one before leads to."""
    tree, found = noted
    children = tree.children()
    node, own = ROOT, []
    for token_id in token_ids:
        own.append(found[node])
        node = children.get((node, token_id), ROOT)
    return tuple(own)
