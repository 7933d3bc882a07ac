"""``.. commands::``: the reference of the command line, from the commands themselves."""

import re
from typing import Any

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from sagpool.cli.commands import COMMANDS, app_for


class Commands(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        lines = [line for name in COMMANDS for line in _command(name)]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def _command(name: str) -> list[str]:
    group: Any = typer.main.get_command(app_for([name]))
    command = group.commands[name]
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    title = f"sagpool {name}"
    lines = [title, "=" * len(title), "", command.help, ""]
    lines += [".. code-block:: text", "", f"   {title} {usage}", "", f".. program:: {title}", ""]
    for parameter in command.params:
        spelling, text = parameter.get_help_record(context)
        spelling = re.sub(r"<list\[(.*)\]>", r"<\1>", spelling)
        text = text.replace("*", r"\*")
        if parameter.param_type_name == "argument":
            lines += [f"``{spelling}``", f"   {text}", ""]
        else:
            lines += [f".. option:: {spelling}", "", f"   {text}", ""]
    return lines


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
