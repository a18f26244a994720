"""Options that belong together stand where the parameter does that gets what is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from typer.testing import CliRunner

from treadle_lab.cli._experiments import with_options

if TYPE_CHECKING:
    from nowhere import Pair  # type: ignore[import-not-found]


def made_pair(left: Annotated[int, typer.Option(help="One.")] = 1, right: int = 2) -> Pair:
    return left, right


def app() -> typer.Typer:
    made = typer.Typer()

    @made.command()
    @with_options(pair=made_pair)
    def show(*, name: str, pair: Pair, loud: bool = False) -> None:
        """Show a pair."""
        typer.echo(f"{name} {pair}{'!' if loud else ''}")

    return made


def test_a_command_gets_what_is_made_of_its_options() -> None:
    assert CliRunner().invoke(app(), ["a", "--left=5", "--loud"]).output == "a (5, 2)!\n"


def test_options_stand_where_the_parameter_does_and_have_their_help_and_types() -> None:
    command = typer.main.get_command(app())
    assert [each.name for each in command.params if each.name in {"name", "left", "right", "loud"}] == [
        "name",
        "left",
        "right",
        "loud",
    ]
    assert command.help == "Show a pair."
    shown = CliRunner().invoke(app(), ["--help"], env={"COLUMNS": "120"}).output
    assert "One." in shown
    wrong = CliRunner().invoke(app(), ["a", "--left=x"])
    assert wrong.exit_code == 2
