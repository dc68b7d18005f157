"""The page: all boxes, nothing from elsewhere, no markup from a text."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ssd.report.timeline_page import write_timeline_page
from tests.telemetry.test_spans import commit, step

ROUNDS = [each.record for each in (commit("a", 4), commit("a", 6)) if each.record is not None]
GROWTH = [step(1, 4, 42), step(2, 4, 46)]


def test_every_round_wait_and_step_has_a_box(tmp_path: Path) -> None:
    path = tmp_path / "timeline.html"
    write_timeline_page(ROUNDS, GROWTH, path, title="rounds", caption="figures")
    boxes = boxes_of(path.read_text())
    assert len(boxes) == 2 + 2 * 2
    first = boxes[0]
    assert (first["start"], first["end"]) == (3, 5)  # the first wait began at 39 ms
    assert {box["words"].get("round") for box in boxes} >= {4, 6}


def test_it_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "timeline.html"
    write_timeline_page(ROUNDS, GROWTH, path, title="</script><b>", caption="<i>")
    page = path.read_text()
    assert "http" not in page
    assert "src=" not in page
    assert "<b>" not in page
    assert "@" not in page
    assert page.count("</script>") == 1


def test_without_a_round_there_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one round"):
        write_timeline_page([], GROWTH, tmp_path / "timeline.html", title="nothing")


def boxes_of(page: str) -> list[dict[str, Any]]:
    found = re.search(r"const boxes = (.*);", page)
    assert found is not None
    boxes: list[dict[str, Any]] = json.loads(found.group(1))
    return boxes
