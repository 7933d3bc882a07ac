"""Command lines with odd options, in this process."""

import io
import json
import os
import shutil
import sys
from pathlib import Path
from random import Random

from fuzzing.mutations import ODD_NUMBERS, ODD_TEXTS, mutate_bytes
from fuzzing.saved import made_up, write_store  # noqa: F401
from fuzzing.target import WrongError, expect
from sagpool.errors import SagpoolError

COMMANDS = {
    "data": ("--features", "--json"),
    "predict": (
        *("--format", "--smiles", "--smiles-column", "--label-column", "--batch-size", "--device"),
        *("--json", "-o", "--plugin"),
    ),
    "report": ("--experiment", "--json"),
    "bench": (
        *("--dataset", "--method", "--table", "--seeds", "--folds", "--set", "--features"),
        *("--search", "--select", "--store", "--device", "--engine", "--members", "--precision"),
        *("--checkpoint-seconds", "--json", "--plugin"),
    ),
    "train": ("--method", "--set", "--folds", "--seed", "--features", "--device", "--members"),
}
FLAGS = ("--json",)
SETTINGS = ("lr", "hidden", "ratio", "dropout", "batch_size", "patience", "conv", "x", "folds")
GOOD = {
    "--features": "degree", "--device": "cpu", "--set": "lr=0.01", "--method": "sagpool-h",
    "--seeds": "1", "--folds": "2", "--members": "2", "--format": "csv", "--batch-size": "2",
    "--seed": "3", "--search": "grid", "--engine": "local", "--precision": "float64",
    "--table": "main", "--dataset": "MUTAG", "--checkpoint-seconds": "9", "--smiles": "CCO",
}  # fmt: skip


class Options:
    """Every command with its options, and unexpected values."""

    def __init__(self, folder: Path) -> None:
        import torch

        from sagpool.classifier import TrainedModel
        from sagpool.graphs import load
        from sagpool.graphs.vocabulary import Vocabulary
        from sagpool.models import Shape, build

        self.folder = folder
        self.data = folder / "graphs.jsonl"
        entries = [{"nodes": ["C", "O"][: 1 + n % 2], "label": n % 2} for n in range(12)]
        self.data.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        graphs = load(self.data)
        torch.manual_seed(0)
        shape = Shape(graphs.num_features, 2, hidden=4)
        weights = build("sagpool-h", shape).state_dict()
        self.model = TrainedModel.of_net("sagpool-h", shape, Vocabulary.of(graphs), weights)
        self.model.save_pretrained(folder / "model")
        self.store = folder / "runs.sqlite"
        write_store(self.store)
        self.content = self.store.read_bytes()
        os.chdir(folder)

    def run(self, random: Random) -> None:
        command = random.choice(list(COMMANDS))
        arguments = self._arguments(random, command)
        code, out, err = run_command(arguments)
        self._clean()
        shown = " ".join(arguments)[:300]
        expect("Traceback" not in err, f"a traceback: {shown}")
        if code == 70:
            raise RuntimeError(f"{err.strip()[-300:]} [{shown}]")
        if code:
            expect(code in (1, 2), f"exit code {code}: {shown}")
            expect(bool(err.strip()), f"no message: {shown}")
            raise SagpoolError(err)
        if "--json" in arguments and command != "predict":
            try:
                json.loads(out)
            except ValueError:
                raise WrongError(f"--json printed no JSON: {shown}") from None

    def _arguments(self, random: Random, command: str) -> list[str]:
        positional = {
            "data": [str(self.data)],
            "predict": ["model", str(self.data)],
            "report": [str(self.store)],
            "bench": ["quick", "--dry-run"],
            "train": [str(self.data), "--quick", "--set", "max_epochs=1", "--set", "hidden=4",
                      "-o", "trained"],
        }[command]  # fmt: skip
        arguments = [command, *positional]
        if random.random() < 0.2:
            place = random.randrange(len(arguments))
            arguments[place] = self._odd(random)
        if command == "report":
            arguments.append("--json")
            if random.random() < 0.5:
                self.store.write_bytes(mutate_bytes(random, self.content))
        for option in random.sample(COMMANDS[command], random.randrange(3)):
            arguments.append(option)
            if option in FLAGS:
                continue
            value = GOOD.get(option, "x") if random.random() < 0.3 else self._odd(random)
            if option == "--set" and random.random() < 0.8:
                value = f"{random.choice(SETTINGS)}={value}"
            arguments.append(value)
        return [argument.replace("\0", "") for argument in arguments]

    def _odd(self, random: Random) -> str:
        pool = (*ODD_TEXTS, *map(str, ODD_NUMBERS), "meta", "cuda:99", "mps", "cpu:1", "-o", "--x")
        value = random.choice(pool)[:5000]
        # Only local data, and nothing that trains for hours.
        return "9" * 30 if value == "lee2019" else value

    def _clean(self) -> None:
        self.store.write_bytes(self.content)
        keep = {"graphs.jsonl", "model", "runs.sqlite"}
        for path in self.folder.iterdir():
            if path.name not in keep:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def run_command(arguments: list[str]) -> tuple[int, str, str]:
    """The command line in this process: exit code, stdout and stderr."""
    from sagpool.cli.main import main

    before = sys.argv, sys.stdout, sys.stderr
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    sys.argv, sys.stdout, sys.stderr = ["sagpool", *arguments], out, err
    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv, sys.stdout, sys.stderr = before
    texts = (stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err))
    return (code if isinstance(code, int) else 0 if code is None else 1, *texts)
