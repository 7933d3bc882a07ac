"""Upload to and download from the Hugging Face Hub (extra ``hub``)."""

from pathlib import Path
from typing import Any

from sagpool.errors import SagpoolError


def is_name(source: str) -> bool:
    """Whether this can be the name of a model on the Hub, ``owner/model``."""
    parts = source.split("/")
    return len(parts) == 2 and all(parts) and parts[0][0] not in ".~"


def download(name: str, files: list[str]) -> Path:
    """Download these files of a model; returns their folder."""
    try:
        return Path(_hub().snapshot_download(name, allow_patterns=files))
    except SagpoolError as error:
        raise SagpoolError(f"There is no model folder {name}. {error}") from None
    except Exception as error:  # network errors and errors of the Hub have no common class
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SagpoolError(f"There is no folder {name}, and the Hub answered: {reason}") from None


def upload(folder: Path, name: str, *, private: bool) -> str:
    """Upload a folder; returns its address."""
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
