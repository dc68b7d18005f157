"""What the backends are given: rules, a dashboard and a compose file that fit our names."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts.dashboard import DASHBOARD, render

OBSERVABILITY = Path(__file__).resolve().parents[2] / "observability"
PROMETHEUS = OBSERVABILITY / "prometheus"
METRIC = re.compile(r"\bssd_[a-z0-9_]+\b")

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (package prometheus)"
)


def promtool(*arguments: str) -> None:
    run = subprocess.run(
        ["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


@needs_promtool
def test_prometheus_takes_rules_and_configuration() -> None:
    promtool("check", "rules", "ssd.rules.yml")
    promtool("check", "config", "prometheus.yml")


@needs_promtool
def test_every_alert_fires_on_its_cause_and_not_beside_it() -> None:
    promtool("test", "rules", "ssd.rules.test.yml", "ssd.drift.test.yml")


def test_every_alert_is_tested() -> None:
    rules = yaml.safe_load((PROMETHEUS / "ssd.rules.yml").read_text())
    alerts = {
        rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule
    }
    fired = {
        test["alertname"]
        for file in PROMETHEUS.glob("*.test.yml")
        for group in yaml.safe_load(file.read_text())["tests"]
        for test in group.get("alert_rule_test", ())
        if test["exp_alerts"]
    }
    assert fired == alerts


def test_the_dashboard_is_up_to_date() -> None:
    assert DASHBOARD.read_text("utf-8") == render(), "run python scripts/dashboard.py"


def test_the_dashboard_begins_with_speculation() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert panels[0]["title"] == "Is speculation paying?"
    ids = [panel["id"] for panel in panels]
    assert len(set(ids)) == len(ids)


def test_the_backends_are_where_the_configuration_says() -> None:
    compose = yaml.safe_load((OBSERVABILITY / "compose.yaml").read_text())
    assert set(compose["services"]) == {"jaeger", "prometheus", "grafana"}
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert not source.startswith("./") or (OBSERVABILITY / source).is_dir(), volume
    sources = OBSERVABILITY / "grafana/provisioning/datasources/ssd.yaml"
    uids = {each["uid"] for each in yaml.safe_load(sources.read_text())["datasources"]}
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        assert panel.get("datasource", {"uid": "ssd-jaeger"})["uid"] in uids


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("compose-spec", [OBSERVABILITY / "compose.yaml"]),
        ("github-workflows", sorted((OBSERVABILITY.parent / ".github/workflows").glob("*.yml"))),
    ],
)
def test_files_that_others_start_obey_their_schema(
    schema: str, files: list[Path], tmp_path: Path
) -> None:
    """There is no container engine and no such CI where the tests run."""
    assert files
    assert obeys(schema, *files)
    misspelt = tmp_path / files[0].name
    text = files[0].read_text()
    for key in ("image:", "runs-on:"):
        text = text.replace(key, f"x{key}")
    misspelt.write_text(text)
    assert not obeys(schema, misspelt)


def obeys(schema: str, *files: Path) -> bool:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    return subprocess.run([*command, *files], capture_output=True, check=False).returncode == 0
