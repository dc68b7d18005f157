"""The configuration as text."""

from pathlib import Path

from ssd.config import SsdConfig, load_config, render_example, render_origins, settings

EXAMPLE = Path(__file__).parents[2] / "examples" / "ssd.yaml"


def test_the_example_file_is_up_to_date() -> None:
    assert EXAMPLE.read_text("utf-8") == render_example(), "run `make example`"


def test_the_example_file_holds_every_default() -> None:
    loaded = load_config(file=EXAMPLE, environment={}, overrides={})
    assert loaded.config == SsdConfig()
    assert set(loaded.origins.values()) == {f"file {EXAMPLE}"}


def test_every_setting_is_described_in_one_line() -> None:
    for setting in settings().values():
        assert setting.description.endswith("."), setting.key
        assert "\n" not in setting.description, setting.key


def test_origins_name_key_value_and_source(tmp_path: Path) -> None:
    file = tmp_path / "ssd.yaml"
    file.write_text("models: {device: cpu}", "utf-8")
    loaded = load_config(file=file, environment={"SSD_VERIFIER__PORT": "7"}, overrides={})
    lines = [line.split(maxsplit=2) for line in render_origins(loaded).splitlines()]
    assert ["models.device", "cpu", f"file {file}"] in lines
    assert ["verifier.port", "7", "environment SSD_VERIFIER__PORT"] in lines
    assert ["verifier.core", "null", "default"] in lines
    assert len(lines) == len(settings())
