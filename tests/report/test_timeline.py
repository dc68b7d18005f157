"""The picture is drawn from records alone."""

import struct
from pathlib import Path

import pytest

from ssd.core.mode import Mode
from ssd.report.demo_picture import draw_demo, run_to_draw
from ssd.report.timeline import cut_into_strips, draw_timeline
from tests.report.synthetic_runs import all_runs, growth_of, report_of, rounds_of, run_record


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height as the header of a PNG has them."""
    header = picture.read_bytes()[:24]
    assert header.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", header[16:24])
    return width, height


@pytest.mark.parametrize(("num_rounds", "num_strips"), [(1, 1), (12, 1), (28, 2), (40, 3)])
def test_more_rounds_make_a_taller_picture_1600_pixels_wide(
    tmp_path: Path, num_rounds: int, num_strips: int
) -> None:
    rounds = rounds_of(num_rounds)
    picture = tmp_path / "timeline.png"
    draw_timeline(rounds, growth_of(rounds), picture, title="rounds", caption="figures")
    width, height = size_of(picture)
    assert width == 1600
    assert 190 * num_strips < height < 190 * num_strips + 250
    assert picture.stat().st_size > 5_000


def test_a_run_without_a_drafter_can_be_drawn(tmp_path: Path) -> None:
    draw_timeline(rounds_of(5), (), tmp_path / "timeline.png", title="alone")
    assert size_of(tmp_path / "timeline.png")[0] == 1600


def test_without_rounds_there_is_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one round"):
        draw_timeline((), (), tmp_path / "timeline.png", title="nothing")


@pytest.mark.parametrize("num_rounds", [1, 14, 15, 40, 200])
def test_strips_hold_every_round_once_and_follow_one_another(num_rounds: int) -> None:
    rounds = rounds_of(num_rounds)
    strips = cut_into_strips(rounds)
    assert tuple(each for strip in strips for each in strip.rounds) == rounds
    assert all(strip.rounds for strip in strips)
    assert [strip.start_ns for strip in strips[1:]] == [strip.end_ns for strip in strips[:-1]]


def test_the_demo_draws_the_first_run_in_mode_ssd_that_fills_the_picture(tmp_path: Path) -> None:
    filling = [run_record(prompt="long", num_rounds=count) for count in (41, 96)]
    plain = [run_record(Mode.AR, prompt=prompt, num_rounds=96) for prompt in ("long", "opening")]
    assert run_to_draw(report_of([*plain, run_record(), *filling]).comparison) is filling[0]
    draw_demo(report_of(all_runs()), tmp_path / "timeline.png")
    assert size_of(tmp_path / "timeline.png")[0] == 1600
