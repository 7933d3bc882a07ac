"""The version of a method's code: a hash of its source files."""

import ast
import hashlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

from sagpool.errors import SagpoolError

PACKAGE = Path(__file__).parents[1]
INSTALLED = {"site-packages", "dist-packages"}
# Their versions are stored separately, and the source of a development version would be long.
NEEDED = {"sagpool", "torch", "torch_geometric", "numpy"}


class Call(NamedTuple):
    """A call on the stack."""

    code: CodeType
    position: int  # in the code
    module: str | None

    @property
    def file(self) -> Path:
        return Path(self.code.co_filename)


class Imported(NamedTuple):
    """A source file when a method was registered with it."""

    spec: ModuleSpec | None
    content: str


_imported: dict[Path, Imported] = {}


def calls() -> list[Call]:
    """The calls that led here: from the caller of this package to the top level of its module."""
    found, frame = list[Call](), sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        module = frame.f_globals.get("__name__")
        top = str(module).split(".")[0]
        if top in NEEDED or top in sys.stdlib_module_names:
            continue
        found.append(Call(frame.f_code, frame.f_lasti, module))
        if frame.f_code.co_name == "<module>":
            break
    return found


def called_by_package() -> bool:
    """Whether a module of this package led here at its top level.

    The calls cannot be copied, unlike the ``__module__`` of a function, which `functools.wraps`
    copies. `register_pyg` is a function of this package that is called from elsewhere.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
        if frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False


def source_version(name: str, build: Callable[..., Any]) -> str:
    """A hash of the files that make and register a method, and of all that they import.

    ``build`` may come from a function of another file, so the files of the callers count too, and
    so does the ``__init__.py`` of the package of each module, which Python runs. Code of installed
    packages does not, unless it defines or registers the method. Imports are found in the source:
    modules whose names are computed are not, and neither are data files.
    """
    try:
        file = inspect.getsourcefile(build)
    except TypeError:  # not a function
        file = None
    callers = [call.file for call in calls()]
    known = [*([] if file is None else [Path(file)]), *callers[:1]]
    if len(known) < 2 or not all(one.is_file() for one in known):
        raise SagpoolError(
            f"The method '{name}' has no source file, so its results could not be told from those "
            "of a later version; register it with version=..."
        )
    known += [one for one in callers[1:] if one.is_file() and not _is_installed(one)]
    known += _packages_of([one.resolve() for one in known])
    # A builder of this package may be registered under another name.
    files = source_files(one.resolve() for one in known if not one.is_relative_to(PACKAGE))
    _check_unchanged(files)
    return content(files)


def _packages_of(files: list[Path]) -> Iterator[Path]:
    """The ``__init__.py`` of all packages around these files, if imported as modules of these."""
    modules = loaded_modules(files)
    for path in files:
        if getattr(modules.get(path), "__package__", None):  # a plugin file has none
            root = root_of(path)
            yield from (folder / "__init__.py" for folder in path.parents if root in folder.parents)


def content(files: Iterable[Path]) -> str:
    """A hash of what is in the files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def _check_unchanged(files: Iterable[Path]) -> None:
    """Refuse a file that changed after it was imported: its old code would have the new version.

    A module that is imported again, or reloaded, has a new spec.
    """
    modules = loaded_modules(files)
    for path in files:
        spec = getattr(modules.get(path), "__spec__", None)
        now = Imported(spec, content([path]))
        before = _imported.setdefault(path, now)
        if spec is not None and before.spec is spec and before.content != now.content:
            raise SagpoolError(
                f"{path} has changed since it was imported; reload it first, or restart Python."
            )
        _imported[path] = now


def loaded_modules(files: Iterable[Path]) -> dict[Path, ModuleType]:
    """The imported module of each of these files that was imported."""
    wanted, found = {*files}, dict[Path, ModuleType]()
    names = {path.name for path in wanted}
    for module in [*sys.modules.values()]:
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and os.path.basename(file) in names:
            path = Path(file).resolve()
            if path in wanted:
                found[path] = module
    return found


def source_files(files: Iterable[Path]) -> list[Path]:
    """The files and all that they import, except installed packages; in the same order anywhere."""
    local = [*dict.fromkeys(path for file in files for path in with_local_imports(file))]
    return [*local, *_imports_from_elsewhere(local)]


def _is_installed(path: Path) -> bool:
    return not INSTALLED.isdisjoint(path.parts)


def root_of(file: Path) -> Path:
    """The folder from which the imports of a file are resolved."""
    root = file.parent
    while (root / "__init__.py").exists():
        root = root.parent
    return root


def with_local_imports(file: Path) -> list[Path]:
    """The file and all files that it imports from its package, or else from its folder, sorted."""
    root = root_of(file)
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
    if place is None or _is_installed(place):
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
    """The paths that the imported modules of a file would have, without a suffix.

    With those of their packages, whose ``__init__.py`` Python runs first.
    """
    for module in _modules(path, root):
        yield module
        yield from (folder / "__init__" for folder in module.parents if root in folder.parents)


def _modules(path: Path, root: Path) -> Iterator[Path]:
    for node in _import_statements(path):
        if isinstance(node, ast.Import):
            yield from (root.joinpath(*alias.name.split(".")) for alias in node.names)
        else:
            base = path.parents[node.level - 1] if node.level else root
            base = base.joinpath(*(node.module or "").split("."))
            yield from (base, *(base / alias.name for alias in node.names))


def _import_statements(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements of a file; calls such as ``import_module("layers")`` count too."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # not Python, for example a page that shows code
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.Call) and (name := _imported_by(node)) is not None:
            absolute = name.lstrip(".")
            if level := len(name) - len(absolute):
                yield ast.ImportFrom(absolute, [], level)
            else:
                yield ast.Import([ast.alias(name)])


def _imported_by(call: ast.Call) -> str | None:
    """The name of the module that a call imports, if it is written there."""
    match call:
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return name
    return None
