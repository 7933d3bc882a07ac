"""Reads experiment files: from YAML to an `Experiment`, or to an error that says where."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn, get_args

from sagpool.bench.claims import Claim, read_claims
from sagpool.bench.experiment import (
    SETTINGS,
    Accuracy,
    DataSet,
    Elsewhere,
    Experiment,
    Related,
    Rule,
    Table,
    check_method,
    check_setting,
    matches,
    number,
    parse_value,
)
from sagpool.bench.selection import Select
from sagpool.errors import SagpoolError
from sagpool.fleet import Training
from sagpool.fleet.training import PROTOCOL
from sagpool.foreign.limits import EXPERIMENT
from sagpool.foreign.paths import user_path
from sagpool.foreign.values import decoding, shorten
from sagpool.foreign.yaml_text import parse_yaml
from sagpool.graphs.features import Features, Normalise
from sagpool.graphs.graphs import Task
from sagpool.models import Display, Value, method_settings, methods
from sagpool.models.registry import suggestion

_PARTS = (
    *("title", "datasets", "tables", "protocol", "grid", "settings", "published", "claims"),
    *("related", "display"),
)
_PUBLISHED = ("statistics", "features", "accuracy", "tests", "seeds", "elsewhere")
_STATISTICS = ("graphs", "classes", "avg_nodes", "avg_edges")


def experiment_names() -> list[str]:
    """The names of the experiments that come with the package."""
    folder = resources.files("sagpool.bench") / "experiments"
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir())


def load_experiment(source: str | Path) -> Experiment:
    """Read an experiment of the package by name, or any other from a .yaml file."""
    path = user_path(source)
    if path.suffix not in (".yaml", ".yml"):
        if str(source) not in experiment_names():
            raise SagpoolError(
                f"There is no experiment '{source}'; name a .yaml file or one of "
                f"{', '.join(experiment_names())}."
            )
        text = (resources.files("sagpool.bench") / "experiments" / f"{source}.yaml").read_text()
        return read_experiment(text, str(source))
    try:
        with path.open("rb") as file:
            text = file.read(EXPERIMENT.most + 1).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise SagpoolError(f"The experiment {path} cannot be read: {reason}.") from None
    return read_experiment(text, path.stem, path.parent)


def read_experiment(text: str, name: str, folder: Path = Path()) -> Experiment:
    """Read the text of an experiment file; data sources may be relative to its folder."""
    content = parse_yaml(text, f"The experiment {name}")
    with decoding(lambda reason: f"The experiment {name}: {reason}."):
        return _Reader(name, folder).experiment(content)


@dataclass(frozen=True)
class _Reader:
    """Turns parsed YAML into an `Experiment`; errors name the entry that is wrong."""

    name: str
    folder: Path

    def experiment(self, content: Any) -> Experiment:
        top = self._mapping(content, "the file", _PARTS)
        for needed in ("datasets", "tables", "protocol"):
            if not top.get(needed):
                self._fail(f"'{needed}' is missing")
        datasets = {
            name: self._dataset(name, entry)
            for name, entry in self._mapping(top["datasets"], "datasets").items()
        }
        tables = {
            name: self._table(f"tables.{name}", entry, datasets)
            for name, entry in self._mapping(top["tables"], "tables").items()
        }
        own = (name for method in methods() for name in method_settings(method))
        known = dict.fromkeys(("seeds", "folds", "select", *SETTINGS, *own))
        protocol = {
            key: self._value(
                value, f"protocol.{key}", number if key in ("seeds", "folds") else parse_value
            )
            for key, value in self._mapping(top["protocol"], "protocol", known).items()
        }
        seeds = self._at_least(1, protocol.pop("seeds", 1), "protocol.seeds")
        select = protocol.pop("select", Select.OVER_FOLDS)
        if select not in tuple(Select):
            self._fail(f"protocol.select must be one of {', '.join(Select)}, not '{select}'")
        for key, value in protocol.items():
            self._check(key, value, methods(), f"protocol.{key}")
        names = set(datasets)
        published = self._mapping(top.get("published"), "published", _PUBLISHED, optional=True)
        return Experiment(
            name=self.name,
            title=self._text(top.get("title", self.name), "title"),
            datasets=datasets,
            tables=tables,
            seeds=seeds,
            protocol=protocol,
            grid=self._rules(top.get("grid"), "grid", names),
            settings=self._rules(top.get("settings"), "settings", names, single=True),
            statistics=self._statistics(published.get("statistics"), names),
            feature_kinds=self._feature_kinds(published.get("features"), names),
            accuracy=self._accuracy(published.get("accuracy"), names),
            tests=self._tests(published.get("tests"), names),
            published_seeds=self._at_least(2, published.get("seeds", 20), "published.seeds"),
            claims=self._claims(top.get("claims", []), tuple(datasets)),
            related=self._related(top.get("related", []), names),
            select=Select(select),
            elsewhere=self._elsewhere(published.get("elsewhere"), names),
            display=self._display(top.get("display")),
        )

    def _claims(self, entries: Any, datasets: tuple[str, ...]) -> tuple[Claim, ...]:
        try:
            return read_claims(entries, datasets)
        except SagpoolError as error:
            self._fail(str(error).removesuffix("."))

    def _related(self, entries: Any, datasets: set[str]) -> Related:
        if not isinstance(entries, list):
            self._fail(f"related must be a list of lists of data sets, not {shorten(entries)}")
        groups = tuple(
            self._names(entry, f"related[{position}]") for position, entry in enumerate(entries)
        )
        named = [name for group in groups for name in group]
        for name in named:
            if name not in datasets:
                self._fail(f"related names '{name}', which is not among the datasets")
            if named.count(name) > 1:
                self._fail(f"related names '{name}' more than once")
        return groups

    def _dataset(self, name: str, entry: Any) -> DataSet:
        place = f"datasets.{name}"
        known = ("source", "features", "normalise", "split", "task", "targets", "node_targets")
        options = self._mapping(entry, place, known, optional=True)
        features, normalise = options.get("features", "auto"), options.get("normalise", "none")
        task = options.get("task", "classification")
        for key, value, kinds in (
            ("features", features, get_args(Features)),
            ("normalise", normalise, get_args(Normalise)),
            ("task", task, get_args(Task)),
        ):
            if value not in kinds:
                self._fail(f"{place}.{key} must be one of {', '.join(kinds)}, not '{value}'")
        source: str | Path = self._text(options.get("source", name), f"{place}.source")
        if "source" in options and self._exists(self.folder / source):
            source = self.folder / source
        split, node_targets = (
            self.folder / self._text(options[key], f"{place}.{key}") if key in options else None
            for key in ("split", "node_targets")
        )
        targets = options.get("targets")
        columns = self._names(targets, f"{place}.targets") if targets is not None else ()
        return DataSet(name, source, features, normalise, "", split, task, columns, node_targets)

    def _table(self, place: str, entry: Any, datasets: Mapping[str, DataSet]) -> Table:
        options = self._mapping(entry, place, ("datasets", "methods"))
        table = Table(
            self._names(options.get("datasets", list(datasets)), f"{place}.datasets"),
            self._names(options.get("methods"), f"{place}.methods"),
        )
        for name in table.datasets:
            if name not in datasets:
                self._fail(f"{place}.datasets names '{name}', which is not among the datasets")
        for method in table.methods:
            try:
                check_method(method)
            except SagpoolError as error:
                self._fail(f"{place}.methods: {error}")
        return table

    def _rules(
        self, entries: Any, place: str, datasets: set[str], *, single: bool = False
    ) -> tuple[Rule, ...]:
        if not isinstance(entries, list | None):
            self._fail(f"{place} must be a list, not {shorten(entries)}")
        rules = []
        for position, entry in enumerate(entries or []):
            here = f"{place}[{position}]"
            options = self._mapping(entry, here, ("methods", "datasets", "set"))
            patterns = {}
            for key, known in (("methods", methods()), ("datasets", sorted(datasets))):
                patterns[key] = self._names(options.get(key, "*"), f"{here}.{key}")
                for pattern in patterns[key]:  # a pattern without a match is a typo
                    if not any(matches(name, [pattern]) for name in known):
                        self._fail(f"{here}: {key} has no '{pattern}'")
            among = [name for name in methods() if matches(name, patterns["methods"])]
            values = {
                key: self._values(key, value, among, f"{here}.set.{key}", single=single)
                for key, value in self._mapping(options.get("set"), f"{here}.set").items()
            }
            rules.append(Rule(values, **patterns))
        return tuple(rules)

    def _values(
        self, key: str, entry: Any, among: list[str], place: str, *, single: bool
    ) -> tuple[Value, ...]:
        entries = entry if isinstance(entry, list) else [entry]
        if not entries or (single and isinstance(entry, list)):
            self._fail(
                f"{place} must be {'one value' if single else 'values'}, not {shorten(entry)}"
            )
        values = tuple(self._value(value, place) for value in entries)
        if key in PROTOCOL:
            self._fail(f"{place}: all cells have the same protocol; move it to 'protocol'")
        for value in values:
            self._check(key, value, among, place)
        return values

    def _statistics(self, entry: Any, datasets: set[str]) -> dict[str, dict[str, float]]:
        place = "published.statistics"
        table = {}
        for name, row in self._mapping(entry, place, sorted(datasets), optional=True).items():
            here = f"{place}.{name}"
            row = self._mapping(row, here, _STATISTICS)
            table[name] = {key: self._value(v, f"{here}.{key}", number) for key, v in row.items()}
        return table

    def _accuracy(self, entry: Any, datasets: set[str]) -> dict[tuple[str, str], Accuracy]:
        place = "published.accuracy"
        table = {}
        for method, row in self._mapping(entry, place, methods(), optional=True).items():
            here = f"{place}.{method}"
            for name, pair in self._mapping(row, here, sorted(datasets)).items():
                table[name, method] = self._mean_and_std(pair, f"{here}.{name}")
        return table

    def _tests(self, entry: Any, datasets: set[str]) -> dict[tuple[str, str], dict[str, Accuracy]]:
        place = "published.tests"
        table = {}
        for method, row in self._mapping(entry, place, methods(), optional=True).items():
            for name, tests in self._mapping(row, f"{place}.{method}", sorted(datasets)).items():
                here = f"{place}.{method}.{name}"
                table[name, method] = {
                    test: self._mean_and_std(pair, f"{here}.{test}")
                    for test, pair in self._mapping(tests, here).items()
                }
        return table

    def _mean_and_std(self, pair: Any, place: str) -> Accuracy:
        if not isinstance(pair, list) or len(pair) != 2:
            self._fail(f"{place} must be [mean, standard deviation], not {shorten(pair)}")
        mean, std = (self._value(value, place, number) for value in pair)
        if not (0 <= mean <= 100 and std >= 0):
            self._fail(f"{place} must be in percent, not {shorten(pair)}")
        return Accuracy(mean, std)

    def _elsewhere(self, entry: Any, datasets: set[str]) -> dict[str, dict[str, Elsewhere]]:
        place = "published.elsewhere"
        return {
            name: {
                dataset: self._one_elsewhere(pair, f"{place}.{name}.{dataset}")
                for dataset, pair in self._mapping(row, f"{place}.{name}", sorted(datasets)).items()
            }
            for name, row in self._mapping(entry, place, optional=True).items()
        }

    def _one_elsewhere(self, entry: Any, place: str) -> Elsewhere:
        given = entry if isinstance(entry, list) else [entry]
        if len(given) not in (1, 2):
            self._fail(f"{place} must be a mean, or [mean, standard deviation]")
        mean, std = (self._value(value, place, number) for value in (*given, 0)[:2])
        if not (0 <= mean <= 100 and std >= 0):
            self._fail(f"{place} must be in percent, not {shorten(entry)}")
        return Elsewhere(mean, std if len(given) == 2 else None)

    def _display(self, entry: Any) -> dict[str, Display]:
        found = {}
        for method, row in self._mapping(entry, "display", methods(), optional=True).items():
            place = f"display.{method}"
            options = self._mapping(row, place, ("name", "colour"), optional=True)
            try:
                found[method] = Display(
                    **{key: self._text(value, f"{place}.{key}") for key, value in options.items()}
                )
            except SagpoolError as error:
                self._fail(f"{place}: {str(error).removesuffix('.')}")
        return found

    def _feature_kinds(self, entry: Any, datasets: set[str]) -> dict[str, str]:
        place = "published.features"
        kinds = self._mapping(entry, place, sorted(datasets), optional=True)
        return {name: self._text(kind, f"{place}.{name}") for name, kind in kinds.items()}

    def _text(self, entry: Any, place: str) -> str:
        if isinstance(entry, str):
            return entry
        if not isinstance(entry, int | float):
            self._fail(f"{place} must be a text, not {shorten(entry)}")
        return str(entry)

    def _exists(self, path: Path) -> bool:
        try:
            return path.exists()
        except (OSError, ValueError):
            return False

    def _mapping(
        self, entry: Any, place: str, known: Iterable[str] = (), *, optional: bool = False
    ) -> dict[str, Any]:
        if entry is None and optional:
            return {}
        if not isinstance(entry, dict) or not all(isinstance(key, str) for key in entry):
            self._fail(f"{place} must be a mapping, not {shorten(entry)}")
        for key in entry if known else ():
            if key not in known:
                self._fail(f"{place} has no '{key}'; {suggestion(key, known)}")
        return entry

    def _names(self, entry: Any, place: str) -> tuple[str, ...]:
        names = entry if isinstance(entry, list) else [entry]
        if not names or not all(isinstance(name, str) for name in names):
            self._fail(f"{place} must be a name or a list of names, not {shorten(entry)}")
        return tuple(names)

    def _value(self, entry: Any, place: str, parse: Callable[[Any], Any] = parse_value) -> Any:
        try:
            return parse(entry)
        except (ValueError, TypeError):
            kind = "a number" if parse is number else "a number or a word"
            self._fail(f"{place} must be {kind}, not {shorten(entry)}")

    def _at_least(self, least: int, value: Any, place: str) -> int:
        if not isinstance(value, int) or value < least:
            self._fail(f"{place} must be an integer of at least {least}, not {shorten(value)}")
        return value

    def _check(self, key: str, value: Value, among: Iterable[str], place: str) -> None:
        try:
            if key == "folds":
                Training("any", folds=value)  # type: ignore[arg-type]
            else:
                check_setting(key, value, among)
        except SagpoolError as error:
            self._fail(f"{place}: {str(error).removesuffix('.')}")

    def _fail(self, what: str) -> NoReturn:
        what = what.removesuffix(".")  # the sentence may come from other code
        shown = what if len(what) <= 500 else f"{what[:497]}..."  # names in it may have any length
        raise SagpoolError(f"The experiment {self.name}: {shown}.")
