"""Writes the Grafana dashboard: `python scripts/dashboard.py`. A test keeps the file up to date.

A dashboard is a thousand lines of JSON of which a hundred words matter; the words are here.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).resolve().parents[1] / "observability/grafana/dashboards/ssd.json"
_DATASOURCE = {"type": "prometheus", "uid": "ssd-prometheus"}
_RATE = "$__rate_interval"
_COLUMNS, _HEIGHT = 24, 8

Query = tuple[str, str]
"""(expression, legend)."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph; its queries share an axis."""

    title: str
    queries: tuple[Query, ...]
    words: str = ""
    unit: str = "short"
    width: int = 8
    kind: str = "timeseries"


def _rate(name: str, labels: str = "", by: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({name}{labels}[{_RATE}]))"


def _share(part: str, whole: str) -> str:
    return f"{part} / {whole}"


def _quantiles(name: str) -> tuple[Query, ...]:
    rate = _rate(f"{name}_bucket", by="le")
    return tuple(
        (f"histogram_quantile({share}, {rate})", f"p{share * 100:.0f}")
        for share in (0.5, 0.95, 0.99)
    )


_DRAFTED = '{mode!~"ar|shadow"}'
_LOOKUPS = _rate("ssd_cache_lookups_total")
ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Is speculation paying?",
        (
            Panel(
                "Speed-up over plain decoding",
                (("ssd_speedup_ratio", "{{worker}}"),),
                "Below 1 speculation makes it slower.",
                width=4,
                kind="stat",
            ),
            Panel("Drafter up", (("ssd_drafter_up", "{{worker}}"),), width=4, kind="stat"),
            Panel(
                "Tokens per round",
                (
                    (
                        _share(
                            _rate("ssd_committed_tokens_total", _DRAFTED),
                            _rate("ssd_rounds_total", _DRAFTED),
                        ),
                        "tokens",
                    ),
                    ("ssd_effective_acceptance", "acceptance x depth"),
                ),
                "The bonus token included: 1 is plain decoding.",
            ),
            Panel(
                "Acceptance and hit rate",
                (
                    (
                        _share(
                            _rate("ssd_accepted_tokens_total"), _rate("ssd_tested_tokens_total")
                        ),
                        "acceptance",
                    ),
                    (
                        _share(_rate("ssd_cache_lookups_total", '{result="hit"}'), _LOOKUPS),
                        "hit rate",
                    ),
                    (
                        _share(
                            _rate("ssd_wasted_draft_tokens_total"), _rate("ssd_draft_tokens_total")
                        ),
                        "verified in vain",
                    ),
                ),
                unit="percentunit",
            ),
        ),
    ),
    (
        "If not, which part is to blame?",
        (
            Panel(
                "What the cursor found",
                ((_rate("ssd_cache_lookups_total", by="result"), "{{result}}"),),
                "late: the drafter was not there yet. key: it had guessed other tokens. absent: no "
                "drafter.",
            ),
            Panel(
                "Rounds without a draft",
                ((_rate("ssd_fallback_rounds_total", by="reason"), "{{reason}}"),),
            ),
            Panel(
                "Accepted by position",
                (
                    (
                        _share(
                            _rate("ssd_accepted_tokens_at_position_total", by="position"),
                            f"on() group_left() {_rate('ssd_rounds_total', _DRAFTED)}",
                        ),
                        "{{position}}",
                    ),
                ),
                unit="percentunit",
            ),
            Panel(
                "Verifier busy, draft overlapped, share of cycle",
                (
                    ("ssd_verifier_busy_ratio", "busy"),
                    ("ssd_overlap_ratio", "overlap"),
                    ("ssd_verify_share_of_cycle", "verify share, {{mode}}"),
                ),
                "Share of the cycle: 0.42 to 0.95 is normal for sd, above 0.90 expected for ssd.",
                unit="percentunit",
            ),
            Panel(
                "Draft cost",
                (("ssd_draft_cost_ratio", "growth step / verification"),),
                "Above 0.20 a draft is dear.",
                unit="percentunit",
            ),
            Panel(
                "Devices at work",
                ((_rate("ssd_device_seconds_total", by="role"), "{{role}}"),),
                unit="percentunit",
            ),
            Panel("Verification", _quantiles("ssd_verify_seconds"), unit="s"),
            Panel("Growth step", _quantiles("ssd_draft_step_seconds"), unit="s"),
            Panel("Waiting for drafts", _quantiles("ssd_wait_seconds"), unit="s"),
        ),
    ),
    (
        "Requests",
        (
            Panel("Tokens per second", ((_rate("ssd_generation_tokens_total"), "generated"),)),
            Panel(
                "Requests per second",
                (
                    (_rate("ssd_requests_total", by="outcome"), "{{outcome}}"),
                    (_rate("ssd_request_errors_total", by="kind"), "error: {{kind}}"),
                ),
            ),
            Panel(
                "Running and queued",
                (("ssd_requests_running", "running"), ("ssd_requests_queued", "queued")),
            ),
            Panel("Time to first token", _quantiles("ssd_time_to_first_token_seconds"), unit="s"),
            Panel(
                "Time per output token", _quantiles("ssd_time_per_output_token_seconds"), unit="s"
            ),
            Panel("Queueing", _quantiles("ssd_queue_seconds"), unit="s"),
            Panel("Whole requests", _quantiles("ssd_request_seconds"), unit="s"),
            Panel(
                "Acceptance by request", _quantiles("ssd_request_acceptance"), unit="percentunit"
            ),
            Panel("Prompt tokens per second", ((_rate("ssd_prompt_tokens_total"), "prompt"),)),
        ),
    ),
    (
        "Workers",
        (
            Panel(
                "KV slots",
                (
                    ("ssd_kv_slots_used", "{{worker}} used"),
                    ("ssd_kv_slots_free", "{{worker}} free"),
                    ("ssd_kv_slots_cached", "{{worker}} kept prefixes"),
                ),
                "Kept prefixes are free: they go when a session needs the room.",
            ),
            Panel(
                "Prefixes and room",
                (
                    (_rate("ssd_prefix_hits_total", by="role"), "prefix found at {{role}}"),
                    (_rate("ssd_prefixes_evicted_total", by="role"), "prefix gone at {{role}}"),
                    (_rate("ssd_kv_preemptions_total", by="role"), "preempted at {{role}}"),
                ),
                "Preempted sessions mean too few KV slots: smaller prompts, or more memory.",
            ),
            Panel(
                "Prompt tokens that no forward ran for",
                ((_rate("ssd_prefix_hit_tokens_total", by="role"), "{{role}}"),),
            ),
            Panel("Memory", (("ssd_memory_bytes", "{{worker}} {{kind}}"),), unit="bytes"),
            Panel(
                "Messages of no use",
                (
                    (_rate("ssd_stale_messages_total", by="role"), "stale at {{role}}"),
                    (_rate("ssd_dropped_messages_total", by="role"), "unreadable at {{role}}"),
                ),
            ),
            Panel(
                "Sessions opened",
                ((_rate("ssd_session_openings_total", by="reason"), "{{reason}}"),),
                "All but start are moves: a lost verifier, a drain, a verifier without room.",
            ),
        ),
    ),
)


def render() -> str:
    """The dashboard as Grafana imports it."""
    dashboard = {
        "uid": "ssd",
        "title": "ssd: speculative speculative decoding",
        "tags": ["ssd"],
        "schemaVersion": 41,
        "version": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "browser",
        "editable": True,
        "panels": list(_panels()),
    }
    return json.dumps(dashboard, indent=2) + "\n"


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for title, panels in ROWS:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": _COLUMNS, "h": 1},
            "panels": [],
        }
        top, left = top + 1, 0
        for panel in panels:
            number += 1
            if left + panel.width > _COLUMNS:
                top, left = top + _HEIGHT, 0
            yield _panel(panel, number, left=left, top=top)
            left += panel.width
        top += _HEIGHT


def _panel(panel: Panel, number: int, *, left: int, top: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.words,
        "datasource": _DATASOURCE,
        "gridPos": {"x": left, "y": top, "w": panel.width, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": query, "legendFormat": legend}
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    DASHBOARD.parent.mkdir(parents=True, exist_ok=True)
    DASHBOARD.write_text(render(), "utf-8")
