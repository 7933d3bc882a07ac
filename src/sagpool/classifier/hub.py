"""Upload to and download from the Hugging Face Hub (extra ``hub``)."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from sagpool.errors import SagpoolError


def is_name(source: str) -> bool:
    """Whether this can be the name of a model on the Hub, ``owner/model``."""
    parts = source.split("/")
    return len(parts) == 2 and all(parts) and parts[0][0] not in ".~"


def similar_folder(source: str) -> Path | None:
    """A folder on this machine whose path differs from this one by a few letters."""
    wanted = Path(source).expanduser()
    parents = [Path(".")] if wanted.parent == Path(".") else _similar_folders(wanted.parent)
    found = [folder for parent in parents for folder in _similar_folders(parent / wanted.name)]
    return found[0] if found else None


def _similar_folders(wanted: Path) -> list[Path]:
    """Folders next to each other with this name or a similar one."""
    try:
        siblings = [folder.name for folder in wanted.parent.iterdir() if folder.is_dir()]
    except OSError:
        return []
    if wanted.is_dir():
        siblings.append(wanted.name)  # such as ..
    return [wanted.parent / name for name in get_close_matches(wanted.name, siblings, cutoff=0.75)]


def download(name: str, files: list[str]) -> Path:
    """Download these files of a model; returns their folder."""
    try:
        return Path(_hub().snapshot_download(name, allow_patterns=files))
    except SagpoolError as error:
        raise SagpoolError(f"There is no model folder {name}. {error}") from None
    except Exception as error:  # errors of the network and of the Hub have no common class
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SagpoolError(f"There is no folder {name}, and the Hub answered: {reason}") from None


def upload(folder: Path, name: str, *, private: bool) -> str:
    """Upload a folder; returns its URL."""
    hub = _hub()
    hub.create_repo(name, private=private, exist_ok=True)
    return str(hub.upload_folder(repo_id=name, folder_path=str(folder)))


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise SagpoolError(
            "The Hub needs a package that is not installed: pip install 'sagpool[hub]'."
        ) from None
    return huggingface_hub
