"""YAML with only plain values: texts, numbers, true and false, lists and mappings."""

from typing import Any

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import DEPTH, ENTRIES, EXPERIMENT
from sagpool.foreign.values import shorten

_PLAIN_TAGS = ("null", "bool", "int", "float", "str", "seq", "map", "merge")


def parse_yaml(text: str, place: str) -> Any:
    """The content of a YAML file. Dates are texts; tags, deep nesting and alias bombs are errors.

    Args:
        text: content of the file
        place: for messages, such as ``The experiment quick``
    """
    import yaml  # only needed for experiment files

    EXPERIMENT.check(len(text), place)
    try:
        _check_size(yaml.parse(text, Loader=yaml.SafeLoader), place)
        return _load(text, place)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        raise SagpoolError(f"{place}{line} is not valid YAML: {problem}.") from None
    except RecursionError:
        raise SagpoolError(f"{place} is nested too deeply.") from None


def _check_size(events: Any, place: str) -> None:
    """Count entries and levels as if aliases were written out, without doing so."""
    import yaml

    anchored: dict[str, int] = {}
    # Anchors of open collections, and entries before them.
    opened: list[tuple[str | None, int]] = []
    entries, most, deepest = 0, ENTRIES.most, DEPTH.most
    for event in events:
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            if anchor not in anchored:
                problem = f"the alias {shorten(anchor)} is inside of what it stands for, or unknown"
                raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
            entries += anchored[anchor]
        elif isinstance(event, yaml.ScalarEvent):
            entries += 1
            if anchor:
                anchored[anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((anchor, entries))
            anchored.pop(anchor or "", None)
            entries += 1
            if len(opened) > deepest:
                DEPTH.check(len(opened), place)
        elif isinstance(event, yaml.CollectionEndEvent):
            name, before = opened.pop()
            if name:
                anchored[name] = entries - before
        if entries > most:
            ENTRIES.check(entries, place)


def _load(text: str, place: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Without dates, sets, binary data and other types that experiments do not use."""

        yaml_implicit_resolvers = {  # noqa: RUF012, as in PyYAML
            first: [
                (tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"
            ]
            for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            kind = node.tag.removeprefix("tag:yaml.org,2002:")
            if kind not in _PLAIN_TAGS:
                problem = f"the tag {shorten(node.tag)} is not known"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            try:
                return super().construct_object(node, deep=deep)
            except (ValueError, KeyError, IndexError, AttributeError, OverflowError):
                problem = f"{shorten(node.value)} is not a valid {kind}"
                raise yaml.constructor.ConstructorError(
                    None, None, problem, node.start_mark
                ) from None

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            keys = set()
            for key, _ in node.value:
                if isinstance(key.value, str) and (key.tag, key.value) in keys:
                    problem = f"the key {shorten(key.value)} is given twice"
                    raise yaml.composer.ComposerError(None, None, problem, key.start_mark)
                keys.add((key.tag, str(key.value)))
            return node

    return yaml.load(text, Loader=Loader)
