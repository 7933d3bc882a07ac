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
    from sagpool.models import registry

    path = Path(source)
    is_file = path.suffix == ".py"
    name = str(path.resolve()) if is_file else str(source)
    if name in _loaded:
        return
    if is_file and not path.is_file():
        raise SagpoolError(f"There is no plugin file {source}.")
    before = dict(registry._methods)
    try:
        if is_file:
            _import_file(path.resolve())
        else:
            importlib.import_module(name)
    except Exception as error:  # whatever the plugin's own code raises
        registry._methods.clear()
        registry._methods.update(before)
        if isinstance(error, SagpoolError):
            raise
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
    try:
        file = inspect.getsourcefile(build)
    except TypeError:  # not a function
        file = None
    if file is None or not Path(file).is_file():
        raise SagpoolError(
            f"The method '{name}' has no source file, so its results could not be told from those "
            "of a later version; register it with version=..."
        )
    files = _with_local_imports(Path(file).resolve())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def _root_of(file: Path) -> Path:
    """The folder from which the imports of a file are resolved."""
    root = file.parent
    while (root / "__init__.py").exists():
        root = root.parent
    return root


def _with_local_imports(file: Path) -> list[Path]:
    """The file and all files of its package, or else of its folder, that it imports, sorted."""
    root = _root_of(file)
    package = root / file.relative_to(root).parts[0]
    alone = root == file.parent and root.name not in ("site-packages", "dist-packages")
    found, waiting = {file}, [file]
    while waiting:
        path = waiting.pop()
        for module in _imports(path, root):
            if not (alone or module.is_relative_to(package)):
                continue
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
    # Two plugins may have the same file name.
    name = f"sagpool_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))  # a plugin may import files beside it
    try:
        spec.loader.exec_module(module)
        _check_local_imports(path)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))


def _check_local_imports(plugin: Path) -> None:
    """Refuse a plugin that got a module of another folder in place of one beside it."""
    root = _root_of(plugin)
    for path in _with_local_imports(plugin):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if path != plugin and loaded is not None and Path(loaded).resolve() != path:
            raise SagpoolError(
                f"The plugin {plugin} imports {name}, but {loaded} was imported under that name "
                "before; rename one of them."
            )
