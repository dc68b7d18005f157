"""What runs against what: a mode, how deep, and on which of several services."""

from dataclasses import dataclass, field, replace

from ssd.client import Options
from ssd.core.mode import Mode
from ssd.core.rule import Rule
from ssd.core.speculation_limits import SpeculationLimits


@dataclass(frozen=True, slots=True)
class Setup:
    """A service with settings over those of the run; contenders of equal settings share one."""

    settings: tuple[tuple[str, object], ...] = ()

    def with_(self, key: str, value: object) -> "Setup":
        return Setup((*self.settings, (key, value)))

    @property
    def num_threads(self) -> object:
        return dict(self.settings).get("verifier.threads", 1)


@dataclass(frozen=True, slots=True)
class Contender:
    """`depth` bounds the drafts of modes that draft a fixed depth."""

    name: str
    mode: Mode
    setup: Setup = field(default_factory=Setup)
    depth: int | None = None

    @property
    def wants_depth(self) -> bool:
        """Whether its best depth is to be searched for."""
        return self.mode is Mode.SD and self.depth is None

    def to_depth(self, depth: int | None) -> "Contender":
        """With a given depth, where it has one at all."""
        return replace(self, depth=depth) if depth and self.mode is Mode.SD else self

    @property
    def num_devices(self) -> int:
        """Cores here: a target alone takes one, unless it has both."""
        return 2 if self.setup.num_threads != 1 or self.mode is not Mode.AR else 1

    def options(self, *, max_tokens: int, temperature: float, seed: int, rule: Rule) -> Options:
        """How to ask for a text."""
        return Options(
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
            mode=self.mode,
            rule=rule,
            speculation=SpeculationLimits(max_depth=self.depth),
            include_rounds=True,
        )


_TREES = Setup((("drafter.sd_frontier", 2),))
# Two threads are bound to no core: the target has both, and the draft when its turn comes.
_BOTH = Setup((("verifier.threads", 2), ("drafter.threads", 2)))
CONTENDERS = {
    each.name: each
    for each in (
        Contender("ar", Mode.AR),
        Contender("sd", Mode.SD),
        Contender("sd_tree", Mode.SD, _TREES),
        Contender("ssd", Mode.SSD),
        Contender("ar2", Mode.AR, _BOTH),
        Contender("sd2", Mode.SD, _BOTH),
    )
}
"""By name. `sd_tree` verifies trees like `ssd`, and waits for its drafts like `sd`."""

ALL_MODES = tuple(CONTENDERS)


def delayed(contender: Contender, delay_ms: float) -> Contender:
    """The same with messages between verifier and drafter held back, each way."""
    setup = contender.setup.with_("verifier.drafter_delay_ms", delay_ms)
    return replace(contender, name=f"{contender.name}+{delay_ms:g}ms", setup=setup)


def varied(contender: Contender, key: str, value: object) -> Contender:
    """The same with one more setting."""
    name = f"{contender.name}+{key.rpartition('.')[2]}={value}"
    return replace(contender, name=name, setup=contender.setup.with_(key, value))
