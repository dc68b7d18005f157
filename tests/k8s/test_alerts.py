"""Alerts, their runbooks, and what docs/operations.md says that the program has."""

import json
import re
from functools import cache
from typing import Any

import pytest
import yaml

from scripts.sizing import gpu_table, table
from ssd.config.setting import settings
from ssd.config.ssd_config import SsdConfig
from tests.k8s.manifests import CHECKOUT, K8S, build, named
from tests.k8s.test_schemas import check_prometheus

OPERATIONS = (CHECKOUT / "docs" / "operations.md").read_text()
SHARED_RULES = CHECKOUT / "observability" / "prometheus" / "ssd.rules.yml"


@cache
def rule_document() -> Any:
    return yaml.safe_load((K8S / "components/monitoring/rules.yaml").read_text())


def rules() -> list[dict[str, Any]]:
    return [rule for group in rule_document()["spec"]["groups"] for rule in group["rules"]]


def alerts() -> set[str]:
    return {rule["alert"] for rule in rules() if "alert" in rule}


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    runbooks = OPERATIONS[OPERATIONS.index("## Runbooks") :]
    headings = re.findall(r"^### (\w+)$", runbooks, re.MULTILINE)
    assert sorted(headings) == sorted(alerts())
    assert len(alerts()) > 10


def test_every_alert_says_how_bad_it_is_and_what_it_means() -> None:
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("critical", "warning", "info")
            assert rule["annotations"]["summary"].endswith(".")


def test_the_shared_rules_are_in_the_cluster_word_for_word() -> None:
    shared = yaml.safe_load(SHARED_RULES.read_text())["groups"]
    assert rule_document()["spec"]["groups"][: len(shared)] == shared


def test_the_dashboard_reaches_grafana() -> None:
    dashboard = named(build(K8S / "overlays" / "gpu"), "ConfigMap", "ssd-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["ssd.json"])["uid"] == "ssd"


def test_every_figure_in_a_rule_is_one_that_we_serve() -> None:
    folders = (CHECKOUT / "ssd/telemetry", CHECKOUT / "coordinator")
    source = "\n".join(path.read_text() for each in folders for path in each.glob("*.py"))
    served = set(re.findall(r'"(ssd_[a-z_]+)"', source))
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for rule in rules():
        for name in re.findall(r"\bssd_[a-z_]+", rule["expr"]):
            assert {name, name.removesuffix("_total")} & served, f"{name} in {rule['expr']}"
        for name in re.findall(r"\bssd:[a-z_:0-9]+", rule["expr"]):
            assert name in recorded


def test_a_typed_model_finds_a_misspelt_rule() -> None:
    document = yaml.safe_load(yaml.safe_dump(rule_document()))
    check_prometheus(document)
    document["spec"]["groups"][0]["rules"][0]["expression"] = "1"
    with pytest.raises((AssertionError, ValueError)):
        check_prometheus(document)


def test_every_setting_in_the_manual_exists() -> None:
    sections = "|".join(SsdConfig.model_fields)
    named = re.findall(rf"`((?:{sections})\.[a-z_]+)", OPERATIONS)
    assert len(set(named)) > 8
    assert set(named) <= set(settings())


def test_every_path_in_the_manual_exists() -> None:
    for path in re.findall(r"`((?:k8s|images|tests|scripts|docs)/[^` ]+)`", OPERATIONS):
        assert (CHECKOUT / path).exists(), path


def test_the_sizing_tables_are_what_the_script_prints() -> None:
    assert table() in OPERATIONS
    assert gpu_table() in OPERATIONS
