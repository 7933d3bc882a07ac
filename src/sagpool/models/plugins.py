"""Methods from outside of the package: files, modules, and installed packages."""

import hashlib
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from sagpool.errors import SagpoolError

log = logging.getLogger("sagpool")

GROUP = "sagpool.methods"  # of entry points
_loaded: dict[str, None] = {}  # in order


def load_plugin(source: str | Path) -> None:
    """Import a Python file, or a module by its name, that registers methods; once each."""
    path = Path(source)
    is_file = path.suffix == ".py"
    name = str(path.resolve()) if is_file else str(source)
    if name in _loaded:
        return
    if is_file and not path.is_file():
        raise SagpoolError(f"There is no plugin file {source}.")
    try:
        if is_file:
            _import_file(path.resolve())
        else:
            importlib.import_module(name)
    except SagpoolError:
        raise
    except Exception as error:  # whatever the plugin's own code raises
        raise SagpoolError(
            f"The plugin {source} cannot be imported: {type(error).__name__}: {error}."
        ) from error
    _loaded[name] = None


def loaded_plugins() -> tuple[str, ...]:
    """What `load_plugin` needs to load them again in another process."""
    return tuple(_loaded)


def load_installed_plugins() -> None:
    """Import what installed packages offer as entry points of the group ``sagpool.methods``."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # one broken package must not stop the others
            log.warning("The plugin %s (%s) cannot be loaded: %s", point.name, point.value, error)


def source_version(name: str, build: Callable[..., Any]) -> str:
    """A hash of the file that defines ``build`` and of what that imports from its own folder."""
    module = inspect.getmodule(build)
    file = _file_of(module)
    if module is None or file is None:
        try:
            text = inspect.getsource(build).encode()
        except (OSError, TypeError):
            raise SagpoolError(
                f"The source of the method '{name}' cannot be found, so its results could not be "
                "told from those of a later version; register it with version=..."
            ) from None
        return hashlib.sha256(text).hexdigest()[:12]
    files, waiting = {file}, [module]
    while waiting:
        for value in vars(waiting.pop()).values():
            owner = value if isinstance(value, ModuleType) else inspect.getmodule(value)
            other = _file_of(owner)
            if owner and other and other.is_relative_to(file.parent) and other not in files:
                files.add(other)
                waiting.append(owner)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files)))
    return digest.hexdigest()[:12]


def _file_of(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file and Path(file).is_file() else None


def _import_file(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(f"sagpool_plugin_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent))  # a plugin may import files beside it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    finally:
        sys.path.remove(str(path.parent))
