"""TU data sets by name: in the folders of ``SAGPOOL_DATA``, in the cache folder, or downloaded."""

import logging
import os
import re
import shutil
import urllib.error
import urllib.request
import zipfile
from contextlib import AbstractContextManager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO, cast

from rich.console import Console
from rich.progress import wrap_file

from sagpool.errors import SagpoolError
from sagpool.graphs.cache import cache_folder, replacing
from sagpool.graphs.tu_files import holds_data

log = logging.getLogger("sagpool")

ALIASES = {"d&d": "DD"}
TIMEOUT_SECONDS = 20


def find_dataset(name: str) -> Path:
    """The folder or zip of a data set, downloaded if necessary."""
    name = ALIASES.get(name.lower(), name)
    if not re.fullmatch(r"[\w.+-]+", name) or name.startswith("."):
        raise SagpoolError(f"'{name}' is neither an existing path nor the name of a data set.")
    for folder in [*data_folders(), download_folder()]:
        if (path := _in_folder(folder, name)) is not None:
            return path
    return _download(name)


def list_datasets() -> list[Path]:
    """Every data set in the folders of ``SAGPOOL_DATA`` and in the cache folder."""
    paths = []
    for folder in [*data_folders(), download_folder()]:
        try:
            if folder.is_dir():
                paths += [path for path in sorted(folder.iterdir()) if holds_data(path)]
        except OSError as error:
            log.warning("%s cannot be read: %s.", folder, error.strerror)
    return paths


def data_folders() -> list[Path]:
    """The folders that ``SAGPOOL_DATA`` names, separated as in ``PATH``."""
    value = os.environ.get("SAGPOOL_DATA", "")
    return [Path(folder).expanduser() for folder in value.split(os.pathsep) if folder]


def download_folder() -> Path:
    return cache_folder() / "downloads"


def _in_folder(folder: Path, name: str) -> Path | None:
    paths = [folder / name, folder / f"{name}.zip"]
    if folder.is_dir():
        # `proteins` finds PROTEINS: no two data sets differ only in case.
        lower = {path.name.lower() for path in paths}
        paths += [path for path in sorted(folder.iterdir()) if path.name.lower() in lower]
    return next(filter(holds_data, paths), None)


def _download(name: str) -> Path:
    url = f"{official_site()}/{name}.zip"
    path = download_folder() / f"{name}.zip"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response,
            _progress(response, f"Downloading {name}") as body,
            replacing(path) as file,
        ):
            shutil.copyfileobj(body, file)
            if not zipfile.is_zipfile(file):
                raise SagpoolError(f"The download of {url} is not a complete zip file; try again.")
    except (OSError, HTTPException) as error:
        raise SagpoolError(_not_found(name, url, error)) from None
    log.info("Downloaded %s to %s.", name, path)
    return path


def _progress(response: HTTPResponse, description: str) -> AbstractContextManager[BinaryIO]:
    console = Console(stderr=True)
    return wrap_file(
        cast(BinaryIO, response),
        int(response.headers.get("Content-Length") or 0),
        description=description,
        console=console,
        disable=not console.is_terminal,  # otherwise rich writes the final bar to log files
    )


def official_site() -> str:
    from torch_geometric.datasets import TUDataset

    return str(TUDataset.url)


def _not_found(name: str, url: str, error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        reason = f"the server answered {error.code} {error.reason}"
    else:
        reason = str(getattr(error, "reason", error))
    folders = ", ".join(
        f"{path}" if path.is_dir() else f"{path} (no such folder)" for path in data_folders()
    )
    return (
        f"No data set '{name}': it is not built in, not in SAGPOOL_DATA ({folders or 'not set'}), "
        f"not in {download_folder()}, and cannot be downloaded from {url} ({reason}). "
        f"Set SAGPOOL_DATA to the folder that contains {name}/ or {name}.zip."
    )
