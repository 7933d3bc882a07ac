"""Methods from outside the package: files, modules, and installed packages."""

import hashlib
import importlib.util
import logging
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

from sagpool.errors import SagpoolError
from sagpool.models.source_version import (
    content,
    loaded_modules,
    root_of,
    source_files,
    with_local_imports,
)

log = logging.getLogger("sagpool")

GROUP = "sagpool.methods"  # group of entry points


class Loaded(NamedTuple):
    """A plugin when it was loaded."""

    content: str  # a hash of its files; empty for a module
    methods: tuple[str, ...]
    files: frozenset[Path]  # its own file and those that it imports


_loaded: dict[str, Loaded] = {}  # by source, in the order of loading


def load_plugin(source: str | Path) -> None:
    """Import a Python file, or a module by name, that registers methods.

    A file is imported again only if it, or a file that it imports, has changed; its new methods
    replace the old ones.
    """
    from sagpool.models import registry

    path = Path(source)
    is_file = path.suffix == ".py"
    name = str(path.resolve()) if is_file else str(source)
    if is_file and not path.is_file():
        raise SagpoolError(f"There is no plugin file {source}.")
    files = source_files([path.resolve()]) if is_file else []
    found = content(files) if is_file else ""
    known = _loaded.get(name)
    if known is not None and known.content == found:
        return
    before = dict(registry._methods)
    for method in known.methods if known else ():
        registry._methods.pop(method, None)
    try:
        if is_file:
            _import_file(path.resolve(), again=known is not None)
        else:
            module = importlib.import_module(name)
            files = [] if module.__file__ is None else source_files([Path(module.__file__)])
    except Exception as error:  # any error of the plugin's own code
        registry._methods.clear()
        registry._methods.update(before)
        if isinstance(error, SagpoolError):
            raise
        raise SagpoolError(
            f"The plugin {source} cannot be imported: {type(error).__name__}: {error}."
        ) from error
    own = (key for key, method in registry._methods.items() if method is not before.get(key))
    _loaded[name] = Loaded(found, tuple(own), frozenset(files))


def loaded_plugins() -> tuple[str, ...]:
    """The arguments with which `load_plugin` loads them again in another process."""
    return tuple(_loaded)


def plugin_with(file: str) -> str | None:
    """The plugin that a source file belongs to."""
    path = Path(file).resolve()
    return next((source for source, plugin in _loaded.items() if path in plugin.files), None)


def load_installed_plugins() -> None:
    """Import the entry points of the group ``sagpool.methods`` of installed packages."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # one broken package must not stop the others
            log.warning("The plugin %s (%s) cannot be loaded: %s", point.name, point.value, error)


def _import_file(path: Path, *, again: bool) -> None:
    # Two plugins may have the same file name.
    name = f"sagpool_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = dict(sys.modules)
    if again:
        _forget_imports(path)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))  # a plugin may import files from its folder
    try:
        spec.loader.exec_module(module)
        _check_local_imports(path)
    except BaseException:
        del sys.modules[name]
        sys.modules.update(before)
        raise
    finally:
        sys.path.remove(str(path.parent))


def _forget_imports(plugin: Path) -> None:
    """Have the files that a changed plugin imports from its folder imported again."""
    own = {*map(id, loaded_modules(with_local_imports(plugin)).values())}
    for name, module in [*sys.modules.items()]:
        if id(module) in own and name != "__main__":
            del sys.modules[name]


def _check_local_imports(plugin: Path) -> None:
    """Refuse a plugin that imported a module of another folder instead of its own."""
    root = root_of(plugin)
    for path in with_local_imports(plugin):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if path != plugin and loaded is not None and Path(loaded).resolve() != path:
            raise SagpoolError(
                f"The plugin {plugin} imports {name}, but {loaded} was imported under that name "
                "before; rename one of them."
            )
