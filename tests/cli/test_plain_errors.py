"""A value that an option does not take is refused in our words."""

import pytest
from typer.testing import CliRunner

from ssd.cli.main import app


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "hi", "--rule"),
        ("generate", "hi", "--mode"),
        ("chat", "--mode"),
        ("serve", "--mode"),
        ("trace", "--mode"),
        ("simulate", "--vary"),
        ("advise", "--target", "tales", "--workload"),
    ],
)
def test_a_value_that_is_not_one_of_those_is_refused(arguments: tuple[str, ...]) -> None:
    said = CliRunner().invoke(app, [*arguments, "other"])
    words = " ".join(said.output.replace("│", " ").split())
    assert said.exit_code == 2
    assert f"Invalid value for '{arguments[-1]}': 'other' is not one of '" in words
    assert "Value error" not in words


def test_commands_of_a_group_are_no_exception() -> None:
    said = CliRunner().invoke(app, ["config", "show", "--config", "no-such.yaml", "--nonsense"])
    assert said.exit_code == 2
    assert "Value error" not in said.output
