"""Layers, origins, and the sentences that stop a process."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ssd.config import LoadedConfig, SsdConfig, load_config, resolve_model, settings
from ssd.core.errors import ConfigError

ROWS = "verifier.max_rows"
ROWS_VARIABLE = "SSD_VERIFIER__MAX_ROWS"


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, so that no ssd.yaml of the checkout's is found."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(
    text: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> LoadedConfig:
    """Load with `text` in ./ssd.yaml."""
    if text is not None:
        Path("ssd.yaml").write_text(text, "utf-8")
    return load_config(file=None, environment=environment or {}, overrides=overrides or {})


def refusal(
    text: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text, environment=environment, overrides=overrides)
    return str(caught.value)


def test_nothing_given_is_the_default() -> None:
    loaded = load()
    assert loaded.config == SsdConfig()
    assert set(loaded.origins) == set(settings())
    assert set(loaded.origins.values()) == {"default"}


def test_each_layer_goes_before_the_next() -> None:
    text, environment, overrides = "verifier: {max_rows: 21}", {ROWS_VARIABLE: "22"}, {ROWS: 23}
    layers = [
        load(text),
        load(text, environment=environment),
        load(text, environment=environment, overrides=overrides),
    ]
    assert [each.config.verifier.max_rows for each in layers] == [21, 22, 23]
    assert [each.origins[ROWS] for each in layers] == [
        "file ssd.yaml",
        f"environment {ROWS_VARIABLE}",
        "flag",
    ]


def test_a_layer_leaves_the_other_keys_alone() -> None:
    loaded = load("verifier: {max_rows: 21}", environment={"SSD_VERIFIER__THREADS": "2"})
    assert (loaded.config.verifier.max_rows, loaded.config.verifier.threads) == (21, 2)
    assert loaded.origins["verifier.port"] == "default"


def test_the_named_file_goes_before_the_variable_and_that_before_the_default_file() -> None:
    for rows, name in ((21, "ssd.yaml"), (22, "variable.yaml"), (23, "flag.yaml")):
        Path(name).write_text(f"verifier: {{max_rows: {rows}}}", "utf-8")
    environment = {"SSD_CONFIG": "variable.yaml"}
    by_variable = load_config(file=None, environment=environment, overrides={})
    by_flag = load_config(file=Path("flag.yaml"), environment=environment, overrides={})
    assert load().config.verifier.max_rows == 21
    assert by_variable.config.verifier.max_rows == 22
    assert by_flag.config.verifier.max_rows == 23


def test_the_process_environment_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROWS_VARIABLE, "77")
    assert load().config.verifier.max_rows == SsdConfig().verifier.max_rows == 256


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("SSD_DRAFTER__MIN_REACH", "1e-4", 1e-4),
        ("SSD_MODELS__HUB_OFFLINE", "false", False),
        ("SSD_VERIFIER__CORE", "1", 1),
        ("SSD_VERIFIER__CORE", "", None),
        ("SSD_VERIFIER__CORE", "null", None),
        ("SSD_CLUSTER__COORDINATORS", "a:1, b:2", ("a:1", "b:2")),
        ("SSD_CLUSTER__COORDINATORS", "", ()),
        ("SSD_SPECULATION__MODE", "sd", "sd"),
    ],
)
def test_a_variable_is_read_as_its_setting_needs(variable: str, text: str, value: object) -> None:
    section, name = variable.removeprefix("SSD_").lower().split("__")
    loaded = load(environment={variable: text})
    assert getattr(getattr(loaded.config, section), name) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "verifier: {max_tree_node: 4}",
            "ssd.yaml: unknown key verifier.max_tree_node; did you mean verifier.max_tree_nodes?",
        ),
        (
            "verifer: {max_rows: 4}",
            "ssd.yaml: unknown key verifer.max_rows; did you mean verifier.max_rows?",
        ),
        (
            "coordinator: {max_depth: 4}",
            "ssd.yaml: unknown key coordinator.max_depth; did you mean drafter.max_depth?",
        ),
        ("max_depth: 4", "ssd.yaml: unknown key max_depth; did you mean drafter.max_depth?"),
        ("verifer:", "ssd.yaml: unknown key verifer; did you mean verifier?"),
        ("zzz: {zzz: 1}", "ssd.yaml: unknown key zzz.zzz"),
        ("verifier: 3", "ssd.yaml: verifier is a section, its keys are written below it"),
        ("- 1", "ssd.yaml: sections such as `verifier:` are expected, not [1]"),
        (
            "verifier:\n  port: 1\n  port: 2\n",
            "ssd.yaml: port stands in line 2 and again in line 3",
        ),
    ],
)
def test_a_file_with_an_unknown_key_is_refused_with_a_hint(text: str, said: str) -> None:
    assert refusal(text) == said


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        (
            "SSD_VERIFIER__MAX_ROW",
            "environment: SSD_VERIFIER__MAX_ROW names no setting;"
            " did you mean SSD_VERIFIER__MAX_ROWS?",
        ),
        (
            "SSD_VERIFIER_MAX_ROWS",
            "environment: SSD_VERIFIER_MAX_ROWS names no setting;"
            " did you mean SSD_VERIFIER__MAX_ROWS?",
        ),
        ("SSD_ZZZ", "environment: SSD_ZZZ names no setting"),
    ],
)
def test_a_variable_that_names_no_setting_is_refused_with_a_hint(variable: str, said: str) -> None:
    assert refusal(environment={variable: "1"}) == said


def test_other_variables_are_ignored() -> None:
    assert load(environment={"HOME": "/", "SSDX": "1"}).config == SsdConfig()


def test_variables_that_kubernetes_sets_for_a_service_are_ignored() -> None:
    links = {
        "SSD_COORDINATOR_SERVICE_HOST": "10.0.0.1",
        "SSD_COORDINATOR_SERVICE_PORT_GRPC": "50050",
        "SSD_COORDINATOR_PORT": "tcp://10.0.0.1:50050",
        "SSD_COORDINATOR_PORT_50050_TCP_ADDR": "10.0.0.1",
        "SSD_COORDINATOR__PORT": "50051",
    }
    assert load(environment=links).config.coordinator.port == 50051


def test_an_unknown_flag_is_refused_with_a_hint() -> None:
    said = refusal(overrides={"drafter.maxdepth": 4})
    assert said == "flag: unknown key drafter.maxdepth; did you mean drafter.max_depth?"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "timeouts: {peer_dead_s: 0}",
            "ssd.yaml: timeouts.peer_dead_s must be a number greater than 0, not 0",
        ),
        (
            "timeouts: {heartbeat_s: -1}",
            "ssd.yaml: timeouts.heartbeat_s must be a number greater than 0, not -1",
        ),
        (
            "timeouts: {drain_s: .inf}",
            "ssd.yaml: timeouts.drain_s must be a number greater than 0, not inf",
        ),
        (
            "drafter: {max_depth: 0}",
            "ssd.yaml: drafter.max_depth must be a whole number at least 1, not 0",
        ),
        (
            "drafter: {sd_depth: yes}",
            "ssd.yaml: drafter.sd_depth must be a whole number at least 1, not True",
        ),
        (
            "coordinator: {port: 70000}",
            "ssd.yaml: coordinator.port must be a whole number at least 0 and at most 65535,"
            " not 70000",
        ),
        (
            "verifier: {core: first}",
            "ssd.yaml: verifier.core must be a whole number at least 0 or null, not 'first'",
        ),
        (
            "models: {device: tpu}",
            "ssd.yaml: models.device must be one of auto, cpu, cuda, not 'tpu'",
        ),
        ("models: {target: ''}", "ssd.yaml: models.target must be some text, not ''"),
        (
            "cluster: {coordinators: [here]}",
            "ssd.yaml: cluster.coordinators must be a list of HOST:PORT, not ['here']",
        ),
    ],
)
def test_a_bad_value_is_refused_naming_key_limit_and_value(text: str, said: str) -> None:
    assert refusal(text) == said


def test_a_bad_value_in_a_variable_names_the_variable() -> None:
    said = refusal(environment={"SSD_TIMEOUTS__CONNECT_S": "soon"})
    assert said == (
        "environment SSD_TIMEOUTS__CONNECT_S: timeouts.connect_s must be a number greater than 0,"
        " not 'soon'"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "timeouts: {peer_dead_s: 0.2}",
            "timeouts.peer_dead_s (0.2) must be greater than timeouts.heartbeat_s (0.25)",
        ),
        (
            "verifier: {max_rows: 12}",
            "verifier.max_rows (12) must be greater than verifier.max_tree_nodes (12):"
            " the root takes a row too",
        ),
        (
            "drafter: {frontier: 1}",
            "drafter.frontier_while_waiting (2) must be at most drafter.frontier (1)",
        ),
        (
            "models: {draft: ./mine, draft_layers: 2}",
            "models.draft_layers (2) makes the draft out of the target;"
            " leave out models.draft (./mine)",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(text: str, said: str) -> None:
    assert refusal(text) == said


def test_a_file_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^missing\.yaml: cannot be read: No such file"):
        load_config(file=Path("missing.yaml"), environment={}, overrides={})


def test_a_file_that_is_not_yaml_is_refused_in_one_line() -> None:
    said = refusal("verifier: [")
    assert said.startswith("ssd.yaml: is not YAML: ")
    assert "\n" not in said


@pytest.mark.parametrize("text", ["", "verifier:\n", "# nothing\n"])
def test_an_empty_file_or_section_is_the_default(text: str) -> None:
    assert load(text).config == SsdConfig()


def test_an_embedded_pair_is_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "tales" / "target").mkdir(parents=True)
    assert resolve_model("tales", role="target", pairs=tmp_path) == str(tmp_path / "tales/target")


def test_another_name_is_left_to_the_loader(tmp_path: Path) -> None:
    for name in ("tales", "./tales", "org/model"):
        assert resolve_model(name, role="draft", pairs=tmp_path) == name
