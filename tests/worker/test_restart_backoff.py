"""A worker that dies at once is started ever more seldom; one that ran for a while at once."""

from pathlib import Path

from ssd.worker.restart_backoff import StartNotes, pause_before_start


def test_starts_in_close_succession_wait_ever_longer_up_to_a_limit() -> None:
    pauses = [
        pause_before_start([float(each) for each in range(count)], 20.0) for count in range(12)
    ]
    assert pauses == [0, 0, 0, 1, 2, 4, 8, 16, 30, 30, 30, 30]


def test_starts_of_long_ago_do_not_count() -> None:
    assert pause_before_start([0.0, 1.0, 2.0, 3.0, 4.0], 1000.0) == 0.0


def test_starts_are_remembered_by_place_and_forgotten_in_time(tmp_path: Path) -> None:
    def note(place: str, now: float) -> list[float]:
        return StartNotes(place, folder=tmp_path / "notes").note(now)

    assert note("verifier-0 for a:1", 10.0) == []
    assert note("verifier-0 for a:1", 11.0) == [10.0]
    assert note("verifier-0 for b:1", 12.0) == []
    assert note("verifier-0 for a:1", 140.0) == []
    for path in (tmp_path / "notes").iterdir():
        path.write_text("half a nu")  # as a crash may leave it
    assert note("verifier-0 for a:1", 141.0) == []
