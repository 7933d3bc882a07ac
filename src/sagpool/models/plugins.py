"""Methods from outside the package: files, modules, and installed packages."""

import ast
import hashlib
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from sagpool.errors import SagpoolError

log = logging.getLogger("sagpool")

GROUP = "sagpool.methods"  # group of entry points
INSTALLED = {"site-packages", "dist-packages"}
# Their versions are stored separately, and the source of a development version would be long.
NEEDED = {"sagpool", "torch", "torch_geometric", "numpy"}
_loaded: dict[str, None] = {}  # sources, in the order of loading


def load_plugin(source: str | Path) -> None:
    """Import a Python file, or a module by name, that registers methods; once each."""
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
    except Exception as error:  # any error of the plugin's own code
        registry._methods.clear()
        registry._methods.update(before)
        if isinstance(error, SagpoolError):
            raise
        raise SagpoolError(
            f"The plugin {source} cannot be imported: {type(error).__name__}: {error}."
        ) from error
    _loaded[name] = None


def loaded_plugins() -> tuple[str, ...]:
    """The arguments with which `load_plugin` loads them again in another process."""
    return tuple(_loaded)


def load_installed_plugins() -> None:
    """Import the entry points of the group ``sagpool.methods`` of installed packages."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # one broken package must not stop the others
            log.warning("The plugin %s (%s) cannot be loaded: %s", point.name, point.value, error)


def source_version(name: str, build: Callable[..., Any]) -> str:
    """A hash of the file that defines ``build`` and of its imports, except installed packages."""
    try:
        file = inspect.getsourcefile(build)
    except TypeError:  # not a function
        file = None
    if file is None or not Path(file).is_file():
        raise SagpoolError(
            f"The method '{name}' has no source file, so its results could not be told from those "
            "of a later version; register it with version=..."
        )
    local = _with_local_imports(Path(file).resolve())
    files = [*local, *_imports_from_elsewhere(local)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def _root_of(file: Path) -> Path:
    """The folder from which the imports of a file are resolved."""
    root = file.parent
    while (root / "__init__.py").exists():
        root = root.parent
    return root


def _with_local_imports(file: Path) -> list[Path]:
    """The file and all files that it imports from its package, or else from its folder, sorted."""
    root = _root_of(file)
    package = root / file.relative_to(root).parts[0]
    alone = root == file.parent and root.name not in INSTALLED
    found, waiting = {file}, [file]
    while waiting:
        path = waiting.pop()
        modules = (one for one in _imports(path, root) if alone or one.is_relative_to(package))
        for candidate in _files_of(modules):
            if candidate not in found:
                found.add(candidate)
                waiting.append(candidate)
    return sorted(found)


def _files_of(modules: Iterable[Path]) -> Iterator[Path]:
    """The existing files of modules; the paths of modules have no suffix."""
    for module in modules:
        for candidate in (module.with_suffix(".py"), module / "__init__.py"):
            if candidate.is_file():
                yield candidate


def _imports_from_elsewhere(files: list[Path]) -> list[Path]:
    """All files that these import from other folders, except installed packages.

    Sorted by module name, because folders may differ between machines.
    """
    found: dict[Path, tuple[str, ...]] = {}  # parts of the name of each module
    waiting = [*files]
    while waiting:
        path = waiting.pop()
        # A package may import itself by relative names.
        for top in _top_level_imports(path) | {*found.get(path, ())[:1]}:
            if (root := _root_of_module(top)) is None:
                continue
            for candidate in _files_of(_imports(path, root)):
                own = candidate.is_relative_to(root / top) or candidate == root / f"{top}.py"
                if own and candidate not in found and candidate not in files:
                    found[candidate] = candidate.relative_to(root).with_suffix("").parts
                    waiting.append(candidate)
    return sorted(found, key=lambda path: found[path])


def _root_of_module(top: str) -> Path | None:
    """The folder of a module; None if it belongs to Python or to an installed package."""
    if top in sys.stdlib_module_names or top in NEEDED:
        return None
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    place = next((Path(one).resolve() for one in places if one and Path(one).exists()), None)
    if place is None or INSTALLED & set(place.parts):
        return None
    return place.parent.parent if place.name == "__init__.py" else place.parent


def _top_level_imports(path: Path) -> set[str]:
    """The first parts of the names of modules that a file imports, without relative imports."""
    names = set[str]()
    for node in _import_statements(path):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif not node.level and node.module:
            names.add(node.module.split(".")[0])
    return names


def _imports(path: Path, root: Path) -> Iterator[Path]:
    """The paths that the imported modules of a file would have, without a suffix."""
    for node in _import_statements(path):
        if isinstance(node, ast.Import):
            yield from (root.joinpath(*alias.name.split(".")) for alias in node.names)
        else:
            base = path.parents[node.level - 1] if node.level else root
            base = base.joinpath(*(node.module or "").split("."))
            yield from (base, *(base / alias.name for alias in node.names))


def _import_statements(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # not Python, for example a page that shows code
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def _import_file(path: Path) -> None:
    # Two plugins may have the same file name.
    name = f"sagpool_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))  # a plugin may import files from its folder
    try:
        spec.loader.exec_module(module)
        _check_local_imports(path)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))


def _check_local_imports(plugin: Path) -> None:
    """Refuse a plugin that imported a module of another folder instead of its own."""
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
