"""Files written by the package: run stores, models, checkpoints; and experiment files."""

import hashlib
import json
import shutil
import sqlite3
from contextlib import suppress
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import yaml

from fuzzing.arrays import craft
from fuzzing.mutations import ODD_NUMBERS, ODD_TEXTS, mutate_bytes, mutate_json, mutate_lines
from fuzzing.target import WrongError, expect
from sagpool.bench.experiment_file import experiment_names, read_experiment
from sagpool.bench.records import CellRecord, DeviceTime, Ranked, Run, SearchCost
from sagpool.bench.store import Store
from sagpool.bench.summary import summarise
from sagpool.classifier import TrainedModel
from sagpool.classifier.folder import CONFIG, WEIGHTS, _checksum
from sagpool.errors import SagpoolError
from sagpool.explain import explain
from sagpool.fleet import Curve, Result, Score, Training, train
from sagpool.fleet.checkpoint import Checkpoint, identity_in, identity_of, trainings_of
from sagpool.fleet.schedule import Slots
from sagpool.fleet.state import MemberState
from sagpool.graphs import load
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build


def made_up(training: Training, accuracy: float) -> Result:
    score = Score(0.5, accuracy)
    losses = np.array([0.9, 0.7, 0.5])
    curve = Curve(losses, losses, np.full(3, accuracy))
    confusion = np.array([[10, 2], [3, 4]])
    return Result(training, False, 3, 3, score, score, score, confusion, curve, 99, 0.25)


def write_store(path: Path) -> None:
    """Write a store with four runs of one method, traces, a cell and a profile."""
    graphs = load("MUTAG")
    trainings = [
        Training("sagpool-h", hidden=4, folds=2, seed=n // 2, fold=n % 2) for n in range(4)
    ]
    torch.manual_seed(0)
    model = build("sagpool-h", Shape(graphs.num_features, 2, hidden=4))
    with Store.writing(path) as store:
        invocation = store.begin("sagpool bench", "quick", "a CPU", {"torch": "2"})
        store.add_data(graphs, "print")
        for number, training in enumerate(trainings):
            traces = [explain(model, graphs, 1)] if number == 0 else []
            result = made_up(training, 0.7 + number / 100)
            store.add(f"k{number}", "MUTAG", "print", result, "float32", invocation, traces)
        own = {name: value for name, value in trainings[0].to_dict().items()
               if name not in ("method", "seed", "fold")}  # fmt: skip
        store.add_cell(
            CellRecord(
                "MUTAG", "MUTAG", "print", "sagpool-h", own, "float32", 2, 2, invocation, "grid",
                (Ranked({"lr": 0.1}, 0.7, 0.5, 10),), 1000, 76.5, 1.5, "", (),
                SearchCost(9, 99, True),
            )
        )  # fmt: skip
        fractions = {"steps": [0.5] * 4, "waiting": [0.5] * 4}
        store.add_profile(invocation, DeviceTime(1.0, 1, fractions, [1, 2, 3, 4]))


def read_all(store: Store) -> list[Run]:
    """Call everything that a store can return."""
    runs = store.runs()
    store.failures(), store.invocations(), store.profiles(), store.data(), store.reached()
    keys = [run.key for run in runs]
    store.validation(keys), store.validation(keys, 2), store.tested(keys)
    store.epochs(keys), store.test_accuracy(keys)
    for key in keys:
        store.traces(key)
    summarise(store.cells(), runs, store.failures())
    return runs


class Stores:
    """Run stores with other cells, columns and tables, and with damaged pages."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "runs.sqlite"
        write_store(self.path)
        self.content = self.path.read_bytes()
        with Store.reading(self.path) as store:
            self.runs = {run.key: run for run in read_all(store)}

    def run(self, random: Random) -> None:
        for file in self.path.parent.glob("runs.sqlite*"):
            file.unlink()
        self.path.write_bytes(self.content)
        valid = False
        if random.random() < 0.75:
            valid = self._change(random)
        else:
            self.path.write_bytes(mutate_bytes(random, self.content))
        try:
            opened = Store.writing if random.random() < 0.3 else Store.reading
            with opened(self.path) as store:
                runs = read_all(store)
                if opened is Store.writing:
                    self._write(store)
        except SagpoolError as error:
            if valid:
                raise WrongError(f"a store with one more column was refused: {error}") from None
            raise
        for run in runs:
            known = self.runs.get(run.key)
            same = known is not None and _fields(run) == _fields(known)
            expect(same, f"the run {run.key[:20]!r} was changed without a word")

    def _change(self, random: Random) -> bool:
        """Make one change by SQL; returns whether a reader must accept it."""
        connection = sqlite3.connect(self.path)
        try:
            tables = [row[0] for row in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'")]  # fmt: skip
            table = random.choice(tables)
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            column = random.choice(columns)
            action = random.random()
            if action < 0.7:
                value = random.choice((*ODD_TEXTS, *ODD_NUMBERS, None, b"", b"abc", b"\xff" * 12))
                rows = connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall() \
                    if table != "data" else []  # fmt: skip
                if rows and random.random() < 0.5 and isinstance(rows[0][1], str):
                    try:
                        value = json.dumps(mutate_json(random, json.loads(rows[0][1])))
                    except ValueError:
                        value = rows[0][1] + random.choice(ODD_TEXTS)
                if isinstance(value, int) and abs(value) >= 2**63:
                    value = str(value)
                where = "" if random.random() < 0.2 else " LIMIT 1"
                part = f"WHERE key IN (SELECT key FROM {table}{where})" if "key" in columns else ""
                connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ? {part}", (value,))
            elif action < 0.78:
                kind = random.choice(("TEXT", "INTEGER DEFAULT 7", "BLOB"))
                connection.execute(f"ALTER TABLE {table} ADD COLUMN later {kind}")
                connection.execute("CREATE TABLE another (a, b)")
                return True
            elif action < 0.84:
                connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
            elif action < 0.88:
                connection.execute(f"DROP TABLE {table}")
            elif action < 0.91:
                connection.execute(f"PRAGMA user_version = {random.choice((0, 2, 7, -1))}")
            elif action < 0.95:
                connection.execute(f"ALTER TABLE {table} RENAME TO old")
                endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n)"
                connection.execute(f"CREATE VIEW {table} AS {endless} SELECT o.* FROM n, old o")
            else:
                connection.execute(
                    f"ALTER TABLE {table} ADD COLUMN large GENERATED ALWAYS AS (zeroblob(50000000))"
                )
        except sqlite3.Error:
            pass  # a change that SQLite itself refuses
        finally:
            connection.commit()
            connection.close()
        return False

    def _write(self, store: Store) -> None:
        invocation = store.begin("again", "quick", "a CPU", {})
        training = Training("sagpool-h", hidden=4, folds=2, seed=9)
        store.add("new", "MUTAG", "print", made_up(training, 0.5), "float32", invocation)
        expect("new" in store.keys(), "a row was not stored")  # noqa: SIM118
        store.connection.execute("DELETE FROM runs WHERE key = 'new'")


def _fields(run: Run) -> dict[str, Any]:
    return {name: str(v.tolist() if name == "curve" else v) for name, v in vars(run).items()}


class Models:
    """Folders of models: damaged ones, and crafted ones with right checksums."""

    def __init__(self, folder: Path) -> None:
        self.graphs = load("MUTAG")[:6]
        self.saved, self.folder = [], folder / "model"
        for method in ("sagpool-h", "sagpool-g", "diffpool-h", "sortpool-g-conv1d", "set2set-g"):
            torch.manual_seed(1)
            shape = Shape(7, 2, hidden=4, k=5, max_nodes=28)
            weights = build(method, shape).state_dict()
            model = TrainedModel.of_net(
                method, shape, Vocabulary.of(self.graphs), weights, {"note": 1}
            )
            path = model.save_pretrained(folder / method)
            self.saved.append((path, model.predict_proba(self.graphs).probabilities))

    def run(self, random: Random) -> None:
        source, expected = random.choice(self.saved)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(source, self.folder)
        config, weights = self.folder / CONFIG, self.folder / WEIGHTS
        action, crafted = random.random(), False
        if action < 0.5:
            content = mutate_json(random, json.loads(config.read_text()))
            crafted = random.random() < 0.7
            if crafted and isinstance(content, dict) and isinstance(content.get("sha256"), dict):
                with suppress(KeyError):
                    content["sha256"]["config"] = _checksum(content)
            config.write_text(json.dumps(content))
        elif action < 0.6:
            config.write_bytes(mutate_bytes(random, config.read_bytes()))
        elif action < 0.65:
            random.choice((config, weights)).unlink()
        elif action < 0.75:
            weights.write_bytes(mutate_bytes(random, weights.read_bytes()))
        else:
            crafted = True
            weights.write_bytes(self._crafted_weights(random, weights.read_bytes()))
            content = json.loads(config.read_text())
            content["sha256"]["weights"] = hashlib.sha256(weights.read_bytes()).hexdigest()
            config.write_text(json.dumps(content))
        model = TrainedModel.from_pretrained(self.folder)
        found = model.predict_proba(self.graphs).probabilities
        expect(bool(np.isfinite(found).all()), "predictions that are not numbers")
        expect(
            bool(np.allclose(found.sum(1), 1, atol=1e-4)), "probabilities that do not add up to 1"
        )
        if not crafted:
            expect(bool(np.allclose(found, expected)), "a damaged model predicts something else")

    def _crafted_weights(self, random: Random, content: bytes) -> bytes:
        from safetensors.torch import load as load_tensors
        from safetensors.torch import save

        if random.random() < 0.3:
            return mutate_bytes(random, content)
        tensors = load_tensors(content)
        name = random.choice(sorted(tensors))  # safetensors gives them in any order
        action = random.randrange(5)
        if action == 0:
            del tensors[name]
        elif action == 1:
            tensors[name] = tensors[name][..., :-1].contiguous()
        elif action == 2:
            kind = random.choice((torch.float16, torch.float64, torch.int64, torch.bool))
            tensors[name] = tensors[name].to(kind)
        elif action == 3:
            tensors["more"] = torch.zeros(3)
        else:
            value = random.choice((float("nan"), float("inf"), 3e38, -3e38, 1e30, 0.0))
            tensors[name].view(-1)[random.randrange(tensors[name].numel())] = value
        return save(tensors)


class Checkpoints:
    """Checkpoints of a fleet: an accepted one must be the same after saving it again."""

    def __init__(self, folder: Path) -> None:
        graphs = load("MUTAG")
        trainings = [
            Training("sagpool-h", hidden=4, max_epochs=epochs, seed=epochs) for epochs in (1, 3, 4)
        ]
        self.file, self.again = folder / "fleet.npz", folder / "again.npz"
        self.identity = identity_of(graphs, trainings, torch.float32, lambda training: True)
        ended = train(graphs, trainings[:1], keep_weights=True, device="cpu")
        member = MemberState.fresh(torch.arange(12.0))
        member.curve, member.epoch = [(0.5, 0.4, 0.3)], 1
        slots = Slots.fill([1, 2], 1)
        Checkpoint(self.identity, {0: ended[0]}, [slots], {1: member}).save(self.file)
        self.content = self.file.read_bytes()
        self.plain = self._plain(self.content)

    def run(self, random: Random) -> None:
        crafted = random.random() < 0.7
        content = craft(random, self.content) if crafted else mutate_bytes(random, self.content)
        self.file.write_bytes(content)
        trainings_of(identity_in(self.file))
        loaded = Checkpoint.load(self.file, self.identity)
        expect(loaded is not None, "the checkpoint seems to be absent")
        loaded.save(self.again)
        if not crafted:
            expect(self._plain(self.again.read_bytes()) == self.plain, "another state was loaded")
        again = Checkpoint.load(self.again, self.identity)
        expect(again.results.keys() == loaded.results.keys(), "results were lost")

    @staticmethod
    def _plain(content: bytes) -> dict[str, Any]:
        import io

        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {
                name: json.loads(file[name].tobytes()) if name == "meta" else file[name].tobytes()
                for name in file.files
            }


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{one}: &{one} [{', '.join([f'*{other}'] * 9)}]\n"
    for other, one in zip("abcdefgh", "bcdefghi", strict=True)
)


class Experiments:
    """Experiment files."""

    def __init__(self, folder: Path) -> None:
        place = resources.files("sagpool.bench") / "experiments"
        self.folder = folder
        self.texts = [(place / f"{name}.yaml").read_text() for name in experiment_names()]
        self.texts.sort(key=len)

    def run(self, random: Random) -> None:
        text = random.choice(self.texts[:2] if random.random() < 0.8 else self.texts)
        way, valid = random.random(), False
        if way < 0.45:
            text = "\n".join(mutate_lines(random, text.split("\n"), random.choice((":", ",", " "))))
        elif way < 0.6:
            text = mutate_bytes(random, text.encode()).decode("utf-8", "replace")
        elif way < 0.93:
            value = mutate_json(random, yaml.safe_load(text))
            text = json.dumps(value)  # JSON is YAML
        elif way < 0.95:
            text = random.choice((BOMB, BOMB + text, "datasets: " + "[" * 5000, "{" * 500))
        elif way < 0.97:
            grid = ", ".join(f"s{n}: [{', '.join('1' * 40)}]" for n in range(8))
            text += f"\ngrid:\n  - set: {{{grid}}}\n"
        else:
            valid = True
        try:
            experiment = read_experiment(text, "fuzzed", self.folder)
        except SagpoolError as error:
            if valid:
                raise WrongError(f"a valid experiment was refused: {error}") from None
            expect(len(str(error)) < 1500, f"a message of {len(str(error))} characters")
            raise
        content = yaml.load(text, Loader=yaml.BaseLoader)  # every value is a text
        expect(set(experiment.datasets) == set(content["datasets"]), "other data sets")
        expect(set(experiment.tables) == set(content["tables"]), "other tables")
        seeds = content["protocol"].get("seeds", "1")
        expect(str(experiment.seeds) == seeds or not seeds.isdigit(), f"seeds {seeds}")
        for key, found in experiment.protocol.items():
            given = content["protocol"][key]
            if isinstance(found, int | float) and not isinstance(found, bool):
                with suppress(ValueError):  # 1/2
                    expect(float(found) == float(given), f"{key} is {found}, not {given}")
        expect(isinstance(experiment.title, str), "the title is no text")
