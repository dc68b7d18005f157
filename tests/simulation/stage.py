"""What all processes of a simulated run share: time, chance, weather, and the log."""

from random import Random

from tests.simulation.network import Action, Channel, EventLoop, FaultBudget, Weather
from tests.simulation.scenario import Scenario


class Stage:
    """One run's time and chance."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.rng = Random(f"world {scenario.seed}")
        self.loop = EventLoop()
        self.faults = FaultBudget(self.rng, scenario.num_faults, scenario.kept_faults)
        self.log: list[str] = []

    def note(self, text: str) -> None:
        self.log.append(f"{self.loop.now - 1000.0:8.4f} {text}")

    def channel(self, weather: Weather) -> Channel:
        return Channel(self.loop, self.faults, weather)


class Process:
    """One life of a process. While it is stopped what should happen to it waits."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self.is_alive = True
        self._held: list[Action] | None = None

    @property
    def is_stopped(self) -> bool:
        return self._held is not None

    def act(self, action: Action) -> None:
        """Let something happen to it, or in it."""
        if not self.is_alive:
            return
        if self._held is not None:
            self._held.append(action)
        else:
            action()

    def after(self, delay_s: float, action: Action) -> None:
        self.stage.loop.after(delay_s, lambda: self.act(action))

    def stop(self) -> None:
        """SIGSTOP."""
        self._held = []

    def go_on(self) -> None:
        """SIGCONT."""
        held, self._held = self._held or [], None
        for action in held:
            self.act(action)
