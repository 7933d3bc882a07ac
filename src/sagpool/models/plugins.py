"""Methods from outside of the package: files, modules, and installed packages."""

import ast
import hashlib
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
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
    """A hash of the file that defines ``build`` and of what it imports from the same folder."""
    file = inspect.getsourcefile(build)
    if file is not None and Path(file).is_file():
        files = _with_local_imports(Path(file).resolve())
        text = b"".join(path.read_bytes() for path in files)
    else:  # typed into a notebook or an interpreter
        try:
            text = inspect.getsource(build).encode()
        except (OSError, TypeError):
            raise SagpoolError(
                f"The source of the method '{name}' cannot be found, so its results could not be "
                "told from those of a later version; register it with version=..."
            ) from None
    return hashlib.sha256(text).hexdigest()[:12]


def _with_local_imports(file: Path) -> list[Path]:
    """The file and all files of its folder (or package) that it imports, sorted."""
    root = file.parent
    while (root / "__init__.py").exists():
        root = root.parent
    found, waiting = {file}, [file]
    while waiting:
        path = waiting.pop()
        for module in _imports(path, root):
            for candidate in (module.with_suffix(".py"), module / "__init__.py"):
                if candidate.is_file() and candidate not in found:
                    found.add(candidate)
                    waiting.append(candidate)
    return sorted(found)


def _imports(path: Path, root: Path) -> Iterator[Path]:
    """Where the modules that a file imports would be, without a suffix."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # not Python, such as a page that shows code
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (root.joinpath(*alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1] if node.level else root
            base = base.joinpath(*(node.module or "").split("."))
            yield from (base, *(base / alias.name for alias in node.names))


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
