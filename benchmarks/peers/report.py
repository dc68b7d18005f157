"""The contest as JSON, as a table and as a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.peers.contest import Contestant, Outcome, Plan, Speed, median_ratio, speed_by_blocks
from benchmarks.peers.identity import Difference

OURS = "ssd"
_COLOURS = {True: "#2f6fb0", False: "#9aa0a6"}


@dataclass(frozen=True)
class Report:
    """What was measured. `padding` says what the pair costs; `service` holds figures of mode ssd's
    rounds; `num_left_out` counts prompts whose text ended early and that nobody is measured on."""

    plan: Plan
    outcome: Outcome
    padding: str
    differences: Sequence[Difference]
    num_left_out: int
    service: Mapping[str, float]

    @property
    def is_identical(self) -> bool:
        """Up to near-ties."""
        return all(each.is_near_tie for each in self.differences)

    @property
    def are_ours_identical(self) -> bool:
        """The same of our own modes: how an engine rounds is its own affair."""
        peers = {each.name for each in self.outcome.contestants if is_peer(each)}
        return all(each.is_near_tie or each.contestant in peers for each in self.differences)

    @property
    def best_peer(self) -> str:
        """The fastest of the others with a draft, each in its best block."""
        peers = [each for each in self.outcome.contestants if is_peer(each) and each.searches]
        return max(peers, key=lambda each: self._speed(each).most).name

    @property
    def ratios(self) -> dict[str, float]:
        """Of mode ssd to each of the others, prompt by prompt; once more over the prompts that
        nobody disturbed, where there are any."""
        ratios: dict[str, float] = {}
        for words, most_foreign in (("", 1.0), (", undisturbed", self.plan.most_foreign)):
            for each in self.outcome.contestants:
                found = median_ratio(self.outcome.runs, OURS, each.name, most_foreign=most_foreign)
                if each.name != OURS and found is not None:
                    ratios[f"ssd / {each.name}{words}"] = found
                    if each.name == self.best_peer:
                        ratios[f"ssd / best peer{words}"] = found
        return ratios

    def as_json(self) -> dict[str, Any]:
        return {
            "padded": True,
            "padding": self.padding,
            "plan": asdict(self.plan),
            "identical": self.is_identical,
            "differences": [asdict(each) for each in self.differences],
            "num_left_out": self.num_left_out,
            "results": [self._result(each) for each in self.outcome.contestants],
            "sweeps": self.outcome.sweeps,
            "best_peer": self.best_peer,
            "ratios": self.ratios,
            "service": dict(self.service),
        }

    def table(self) -> str:
        """In Markdown."""
        lines = [
            "| engine (padded pair) | drafts | tokens/s | blocks | undisturbed | in all | ids |",
            "|---|---|---|---|---|---|---|",
        ]
        for each in self.outcome.contestants:
            speed = self._speed(each)
            cells = [
                each.name,
                _drafts(each),
                f"{speed.median:.0f}",
                f"{speed.least:.0f}-{speed.most:.0f}",
                "" if speed.undisturbed is None else f"{speed.undisturbed:.0f}",
                f"{speed.of_requests:.0f}",
                self._identity_words(each.name),
            ]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)

    def draw(self, file: Path) -> None:
        contestants = self.outcome.contestants
        speeds = [self._speed(each) for each in contestants]
        middles = [speed.median for speed in speeds]
        errors = [
            [speed.median - speed.least for speed in speeds],
            [speed.most - speed.median for speed in speeds],
        ]
        figure = Figure(figsize=(7.2, 3.8), layout="constrained")
        axes = figure.add_subplot()
        colours = [_COLOURS[not is_peer(each)] for each in contestants]
        names = [each.name for each in contestants]
        bars = axes.barh(names, middles, xerr=errors, color=colours, capsize=3)
        axes.bar_label(bars, [f"{middle:.0f}" for middle in middles], padding=6)
        axes.set_xlim(0.0, max(speed.most for speed in speeds) * 1.15)
        axes.invert_yaxis()
        axes.set_xlabel("tokens/s, padded pair, fp32, two cores for each engine")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        figure.savefig(file)

    def _speed(self, contestant: Contestant) -> Speed:
        most_foreign = self.plan.most_foreign
        return speed_by_blocks(self.outcome.runs, contestant.name, most_foreign=most_foreign)

    def _result(self, contestant: Contestant) -> dict[str, Any]:
        return {
            "name": contestant.name,
            "version": contestant.engine.version,
            "drafts": _drafts(contestant),
            "tokens_per_s": asdict(self._speed(contestant)),
            "same_ids": self._identity_words(contestant.name),
        }

    def _identity_words(self, name: str) -> str:
        mine = [each for each in self.differences if each.contestant == name]
        wrong = sum(not each.is_near_tie for each in mine)
        if wrong:
            return f"{wrong} texts differ"
        return f"equal ({len(mine)} near-ties)" if mine else "equal"


def is_peer(contestant: Contestant) -> bool:
    """Whether it is somebody else's."""
    return not contestant.engine.version.startswith("ssd-service")


def _drafts(contestant: Contestant) -> str:
    if contestant.drafting is not None:
        return str(contestant.drafting)
    return "trees, ahead" if contestant.name == OURS else "none"
