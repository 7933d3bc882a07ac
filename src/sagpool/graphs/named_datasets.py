"""TU data sets by name: in the folders of ``SAGPOOL_DATA``, in the cache folder, or downloaded."""

import hashlib
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
from typing import IO, BinaryIO, cast

from rich.console import Console
from rich.progress import wrap_file

from sagpool.errors import SagpoolError
from sagpool.foreign.archives import check_entries, zip_errors
from sagpool.foreign.paths import user_path
from sagpool.foreign.values import DecodingError
from sagpool.graphs.cache import cache_folder, replacing
from sagpool.graphs.tu_files import holds_data

log = logging.getLogger("sagpool")

ALIASES = {"d&d": "DD"}
TIMEOUT_SECONDS = 20


def find_dataset(name: str) -> Path:
    """The folder or zip of a data set, downloaded if necessary."""
    name = ALIASES.get(name.lower(), name)
    if not re.fullmatch(r"[\w.+-]{1,100}", name, re.ASCII) or name.startswith("."):
        raise SagpoolError(
            f"'{name[:200]}' is neither an existing path nor the name of a data set."
        )
    for folder in data_folders():
        if (path := _in_folder(folder, name)) is not None:
            return path
    path = _in_folder(download_folder(), name)
    if path is None:
        return _download(name)
    _check_download(path)
    return path


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
    return [user_path(folder) for folder in value.split(os.pathsep) if folder]


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
            _check_complete(file, url, response)
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
            # Written before the zip appears, so a download never lacks its checksum.
            with replacing(_checksum_file(path)) as checksum:
                checksum.write(f"{digest}  {path.name}\n".encode())
    except (OSError, HTTPException) as error:
        raise SagpoolError(_not_found(name, url, error)) from None
    log.info("Downloaded %s to %s.", name, path)
    return path


def _check_complete(file: IO[bytes], url: str, response: HTTPResponse) -> None:
    """Check that every byte has arrived, and that every file of the zip has its checksum."""
    received = file.seek(0, 2)
    announced = response.headers.get("Content-Length")
    whole = announced is None or not announced.isdecimal() or int(announced) == received
    try:
        with zip_errors(), zipfile.ZipFile(file) as archive:
            check_entries(archive.infolist(), received)
            if whole and archive.testzip() is None:
                return
    except DecodingError:
        pass
    raise SagpoolError(f"The download of {url} is not a complete zip file; try again.")


def _check_download(path: Path) -> None:
    """Check that a download is unchanged; downloads of older versions have no checksum."""
    try:
        written = _checksum_file(path).read_text("ascii", "replace").split(" ")[0]
    except FileNotFoundError:
        return
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != written:
            raise SagpoolError(
                f"{path} has changed since it was downloaded; remove it to download it again."
            )


def _checksum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


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
