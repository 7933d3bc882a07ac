from importlib import import_module

import pytest

from sagpool.cli.commands import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_has_the_first_line_of_each_help(name):
    command = getattr(import_module(f"sagpool.cli.{name}"), name)
    assert command.__doc__.splitlines()[0] == COMMANDS[name]


def test_help_lists_all_commands(sagpool):
    lines = sagpool("--help").out.splitlines()
    for name, summary in COMMANDS.items():
        assert any(name in line and summary.split()[0] in line for line in lines)


def test_a_misspelt_command(sagpool):
    outcome = sagpool("trian")
    assert outcome.code == 2
    assert "No such command 'trian'" in outcome.err
