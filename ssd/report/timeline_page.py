"""The picture of rounds as a page of its own: zoom, drag, and point at a box for its figures.

One file without any reference to elsewhere, so that it can be mailed or attached to an issue.
"""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ssd.core.rounds import GrowthSpan, Lookup, RoundRecord
from ssd.report.timeline_colours import (
    GRID,
    HATCH,
    IDLE,
    INK,
    UNUSED,
    USED,
    VERIFY_COLOURS,
    VERIFY_WORDS,
)

_DRAFTER, _VERIFIER = 0, 1


def write_timeline_page(
    rounds: Sequence[RoundRecord],
    growth: Sequence[GrowthSpan],
    path: Path,
    *,
    title: str,
    caption: str = "",
) -> None:
    """Write all rounds of one request.

    Raises:
        ValueError: there is no round to draw.
    """
    if not rounds:
        raise ValueError("a timeline needs at least one round")
    start_ns = rounds[0].launch_ns - rounds[0].wait_ns
    page = _PAGE
    for name, value in {
        "TITLE": escape(title),
        "CAPTION": escape(caption),
        "LEGEND": _legend(rounds),
        "INK": INK,
        "GRID": GRID,
        "IDLE": IDLE,
        "BOXES": json.dumps(_boxes(rounds, growth, start_ns)).replace("</", "<\\/"),
    }.items():
        page = page.replace(f"@{name}@", value)
    path.write_text(page, "utf-8")


def _boxes(
    rounds: Sequence[RoundRecord], growth: Sequence[GrowthSpan], start_ns: int
) -> list[dict[str, object]]:
    used = {step for each in rounds for step in each.verified_steps}
    boxes = [
        _box(
            _DRAFTER,
            span.start_ns - start_ns,
            span.end_ns - start_ns,
            USED if span.step in used else UNUSED,
            {
                "growth step": span.step,
                "for a text of": f"{span.base_len} tokens",
                "rows": span.num_rows,
                "verified": "yes" if span.step in used else "no",
            },
        )
        for span in growth
    ]
    for each in rounds:
        launch_ns, end_ns = each.launch_ns - start_ns, each.end_ns - start_ns
        if each.wait_ns > 0:
            words: dict[str, object] = {"waits before round": each.round_id}
            boxes.append(_box(_VERIFIER, launch_ns - each.wait_ns, launch_ns, HATCH, words))
        boxes.append(
            _box(_VERIFIER, launch_ns, end_ns, VERIFY_COLOURS[each.lookup], _words(each))
            | {"text": str(each.num_accepted)}
        )
    return boxes


def _box(
    lane: int, start_ns: int, end_ns: int, colour: str, words: dict[str, object]
) -> dict[str, object]:
    figures = {**words, "from": f"{start_ns / 1e6:.2f} ms", "took": f"{_ms(end_ns - start_ns)} ms"}
    return {
        "lane": lane,
        "start": round(start_ns / 1e6, 4),
        "end": round(end_ns / 1e6, 4),
        "colour": colour,
        "words": figures,
    }


def _words(record: RoundRecord) -> dict[str, object]:
    return {
        "round": record.round_id,
        "after a text of": f"{record.base_len} tokens",
        "nodes": record.num_proposed,
        "depth": record.tree_depth,
        "accepted": f"{record.num_accepted} of {record.num_tested} tested",
        "ended": VERIFY_WORDS[record.lookup],
        "waited": f"{_ms(record.wait_ns)} ms",
        "rows in the batch": record.num_batch_rows,
    }


def _legend(rounds: Sequence[RoundRecord]) -> str:
    found = {each.lookup for each in rounds}
    entries = [(USED, "draft step, used"), (UNUSED, "unused")]
    entries += [(VERIFY_COLOURS[each], VERIFY_WORDS[each]) for each in Lookup if each in found]
    entries.append((HATCH, "verifier waits"))
    return "".join(
        f'<span><i style="background:{colour}"></i>{escape(words)}</span>'
        for colour, words in entries
    )


def _ms(duration_ns: int) -> str:
    return f"{duration_ns / 1e6:.2f}"


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>@TITLE@</title>
<style>
  body { font: 15px/1.5 system-ui, sans-serif; color: @INK@; margin: 24px; background: white; }
  h1 { font-size: 20px; margin: 0 0 4px; }
  p { margin: 0 0 12px; }
  #legend span { margin-right: 18px; white-space: nowrap; }
  #legend i { display: inline-block; width: 14px; height: 14px; margin-right: 6px;
              vertical-align: -2px; border-radius: 2px; }
  canvas { width: 100%; height: 220px; margin-top: 12px; cursor: grab; touch-action: none; }
  #words { position: fixed; pointer-events: none; display: none; background: @INK@; color: white;
           padding: 8px 12px; border-radius: 4px; font-size: 13px; white-space: pre; }
</style>
<h1>@TITLE@</h1>
<p>@CAPTION@</p>
<div id="legend">@LEGEND@</div>
<canvas></canvas>
<p>Wheel zooms, dragging moves, a double click shows everything. The number in a box counts the
drafted tokens that the round accepted.</p>
<div id="words"></div>
<script>
const boxes = @BOXES@;
const canvas = document.querySelector("canvas"), pen = canvas.getContext("2d");
const words = document.getElementById("words");
const left = 80, lanes = [20, 100], laneHeight = 64;
const whole = [0, Math.max(...boxes.map(box => box.end))];
let view = [0, Math.min(whole[1], 60)], drag = null;

const width = () => canvas.clientWidth - left;
const place = ms => left + (ms - view[0]) / (view[1] - view[0]) * width();
const time = x => view[0] + (x - left) / width() * (view[1] - view[0]);

function draw() {
  const ratio = devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = canvas.clientHeight * ratio;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  pen.fillStyle = "@IDLE@";
  for (const top of lanes) pen.fillRect(left, top, width(), laneHeight);
  drawAxis();
  pen.save();
  pen.beginPath(); pen.rect(left, 0, width(), canvas.clientHeight); pen.clip();
  pen.textAlign = "center"; pen.font = "bold 13px system-ui";
  for (const box of boxes) {
    if (box.end < view[0] || box.start > view[1]) continue;
    const x = place(box.start), wide = Math.max(place(box.end) - x, 1);
    pen.fillStyle = box.colour;
    pen.fillRect(x, lanes[box.lane], Math.max(wide - 0.7, 0.7), laneHeight);
    if (box.text && wide > 14) {
      pen.fillStyle = "white";
      pen.fillText(box.text, x + wide / 2, lanes[box.lane] + laneHeight / 2 + 5);
    }
  }
  pen.restore();
  pen.fillStyle = "@INK@"; pen.textAlign = "right"; pen.font = "14px system-ui";
  pen.fillText("drafter", left - 10, lanes[0] + laneHeight / 2 + 5);
  pen.fillText("verifier", left - 10, lanes[1] + laneHeight / 2 + 5);
}

function drawAxis() {
  const span = view[1] - view[0], raw = span / 10;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(each => each * power).find(each => each >= raw);
  pen.textAlign = "center"; pen.font = "12px system-ui";
  for (let ms = Math.ceil(view[0] / step) * step; ms <= view[1]; ms += step) {
    const x = place(ms);
    pen.strokeStyle = "@GRID@";
    pen.beginPath(); pen.moveTo(x, 10); pen.lineTo(x, 180); pen.stroke();
    pen.fillStyle = "@INK@";
    pen.fillText(`${+ms.toFixed(3)} ms`, x, 200);
  }
}

function show(start, end) {
  const least = 0.05, span = Math.max(end - start, least);
  start = Math.max(Math.min(start, whole[1] - least), whole[0]);
  view = [start, Math.min(start + span, Math.max(whole[1], start + least))];
  draw();
}

canvas.addEventListener("wheel", event => {
  event.preventDefault();
  const at = time(event.offsetX), factor = Math.exp(event.deltaY / 400);
  show(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
}, { passive: false });
canvas.addEventListener("dblclick", () => show(...whole));
canvas.addEventListener("pointerdown", event => { drag = [event.clientX, ...view]; });
addEventListener("pointerup", () => { drag = null; });
canvas.addEventListener("pointermove", event => {
  if (drag) {
    const moved = (drag[0] - event.clientX) / width() * (drag[2] - drag[1]);
    show(drag[1] + moved, drag[2] + moved);
  }
  const ms = time(event.offsetX);
  const lane = lanes.findIndex(top => event.offsetY >= top && event.offsetY < top + laneHeight);
  const box = boxes.findLast(each => each.lane === lane && each.start <= ms && each.end >= ms);
  words.style.display = box && !drag ? "block" : "none";
  if (box) {
    words.textContent =
      Object.entries(box.words).map(([name, value]) => `${name}: ${value}`).join("\\n");
    words.style.left = `${Math.min(event.clientX + 14, innerWidth - 260)}px`;
    words.style.top = `${event.clientY + 14}px`;
  }
});
canvas.addEventListener("pointerleave", () => { words.style.display = "none"; });
addEventListener("resize", draw);
draw();
</script>
</html>
"""
