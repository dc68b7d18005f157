"""What may come into a verifier: openings by order of epoch, expansions that make sense."""

from ssd.core.errors import InvalidRequest, SessionConflict
from ssd.core.expansion import Expansion
from ssd.core.ids import Epoch, SessionId
from ssd.core.messages import Open
from ssd.core.sampling_params import check_something_is_left
from ssd.core.verifier_limits import VerifierLimits

_EPOCHS_REMEMBERED = 4096


class VerifierGate:
    """Owns the newest epoch seen of each of the last sessions."""

    def __init__(self, limits: VerifierLimits) -> None:
        self._limits = limits
        self._epochs: dict[SessionId, Epoch] = {}

    def check(self, opening: Open, *, standing: Open | None) -> None:
        """Raises SessionConflict for an opening that is old, InvalidRequest for one that does not
        fit this model."""
        newest = standing.epoch if standing else self._epochs.get(opening.session_id)
        if newest is not None and newest >= opening.epoch:
            raise SessionConflict(
                f"epoch {opening.epoch} of session {opening.session_id} is not newer than {newest}"
            )
        if not 0 < len(opening.token_ids) < opening.max_len <= self._limits.context_len:
            raise InvalidRequest(
                f"{len(opening.token_ids)} tokens and a limit of {opening.max_len} do not fit a "
                f"context of {self._limits.context_len}"
            )
        bad = [each for each in opening.token_ids if not 0 <= each < self._limits.vocab_size]
        if bad:
            raise InvalidRequest(
                f"token id {bad[0]} is outside the vocabulary of {self._limits.vocab_size}"
            )
        check_something_is_left(opening.params, vocab_size=self._limits.vocab_size)

    def passed(self, opening: Open) -> None:
        """The session was admitted: openings of this epoch or an older one are refused from now."""
        self._epochs.pop(opening.session_id, None)
        self._epochs[opening.session_id] = opening.epoch
        if len(self._epochs) > _EPOCHS_REMEMBERED:
            self._epochs.pop(next(iter(self._epochs)))

    def admits(self, expansion: Expansion, opening: Open) -> bool:
        """Whether a drafter's tokens are in the vocabulary and its estimates are probabilities."""
        vocab_size, token_ids = self._limits.vocab_size, expansion.token_ids
        return (
            (not token_ids or (min(token_ids) >= 0 and max(token_ids) < vocab_size))
            and all(0.0 <= each <= 1.0 for each in expansion.estimates)
            and (opening.params.is_coupled or expansion.is_sampled(vocab_size=vocab_size))
        )
