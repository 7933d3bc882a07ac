"""Methods from files and packages outside of sagpool."""

import importlib
import sys

import pytest

from sagpool import testing
from sagpool.errors import SagpoolError
from sagpool.models import (
    Shape,
    build,
    load_plugin,
    method_version,
    methods,
    plugins,
    registry,
    source_version,
)


@pytest.fixture(autouse=True)
def own_methods(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    monkeypatch.setattr(plugins, "_loaded", {})


IMPORT = "from layers_of_mine import RATIO"
PLUGIN = f"""
from sagpool.models import hierarchical, register
from sagpool.nn import GPool
{IMPORT}

@register("plugged-h", settings={{"temperature": 0.5}})
def plugged(shape):
    return hierarchical(shape, lambda block: GPool(shape.hidden, RATIO, members=shape.members))
"""


def write_plugin(folder, layers="RATIO = 0.5\n"):
    folder.mkdir(exist_ok=True)
    (folder / "layers_of_mine.py").write_text(layers)
    (folder / "plugin.py").write_text(PLUGIN)
    return folder / "plugin.py"


def forget_modules():
    for name in [name for name in sys.modules if name.startswith(("layers_of", "sagpool_plugin"))]:
        del sys.modules[name]


@pytest.fixture
def forget():
    yield
    forget_modules()


def test_a_plugin_file(tmp_path, forget):
    load_plugin(write_plugin(tmp_path))
    load_plugin(tmp_path / "plugin.py")  # a second time does nothing
    assert "plugged-h" in methods()
    assert len(method_version("plugged-h")) == 12
    assert method_version("sagpool-h") == ""
    testing.check_method("plugged-h", seeds=[0])


def test_the_version_follows_the_source(tmp_path, monkeypatch, forget):
    found = []
    for number, ratio in enumerate((0.5, 0.25, 0.5)):
        monkeypatch.setattr(registry, "_methods", dict(registry._methods))
        registry._methods.pop("plugged-h", None)
        sys.modules.pop("layers_of_mine", None)
        load_plugin(write_plugin(tmp_path / str(number), f"RATIO = {ratio}\n"))
        found.append(method_version("plugged-h"))
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize(
    "changed",
    [
        "layers_of_lab/__init__.py",
        "layers_of_lab/deep/__init__.py",
        "layers_of_lab/layers.py",
        "layers_of_lab/deep/parts.py",
        "layers_of_all.py",
    ],
)
def test_the_version_follows_code_in_other_folders(changed, tmp_path, monkeypatch, forget):
    """As of a package that is installed in editable mode."""
    elsewhere = {
        "layers_of_lab/__init__.py": "",
        "layers_of_lab/layers.py": "from .deep.parts import HALF\nRATIO = HALF\n",
        "layers_of_lab/deep/__init__.py": "",
        "layers_of_lab/deep/parts.py": "import layers_of_all\nHALF = layers_of_all.HALF\n",
        "layers_of_all.py": "HALF = 0.5\n",
    }
    for name, text in elsewhere.items():
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "src")
    plugin = tmp_path / "plugin.py"
    plugin.write_text("from layers_of_lab.layers import RATIO\ndef build(shape): pass\n")

    def version():
        forget_modules()
        names = {}
        exec(compile(plugin.read_text(), str(plugin), "exec"), names)
        return source_version.source_version("mine-h", names["build"])

    first = version()
    assert version() == first
    (tmp_path / "src" / changed).write_text(elsewhere[changed] + "# other code\n")
    assert version() != first


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("import layers_of_lab.mine", "layers_of_lab"),
        ("from layers_of_lab.deep.mine import RATIO", "layers_of_lab"),
        ("from layers_of_lab.deep.mine import RATIO", "layers_of_lab/deep"),
    ],
)
def test_the_version_follows_the_packages_of_imported_modules(line, package, tmp_path, forget):
    for folder in ("layers_of_lab", "layers_of_lab/deep"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("SCALE = 1\n")
        (tmp_path / folder / "mine.py").write_text("RATIO = 0.5\n")
    plugin = write_plugin(tmp_path)
    plugin.write_text(PLUGIN.replace(IMPORT, f"{line}\nRATIO = 0.5"))
    load_plugin(plugin)
    before = method_version("plugged-h")
    (tmp_path / package / "__init__.py").write_text("SCALE = 25\n")
    load_plugin(plugin)
    assert method_version("plugged-h") != before
    assert sys.modules[package.replace("/", ".")].SCALE == 25, "imported again"


def test_the_version_follows_the_package_that_registers(tmp_path, monkeypatch, forget):
    (tmp_path / "layers_of_lab").mkdir()
    (tmp_path / "layers_of_lab" / "plugin.py").write_text(PLUGIN.replace(IMPORT, "RATIO = 0.5"))
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for text in ("", "SCALE = 2\n"):
        (tmp_path / "layers_of_lab" / "__init__.py").write_text(text)
        forget_modules()
        registry._methods.pop("plugged-h", None)
        plugins._loaded.clear()
        importlib.invalidate_caches()
        load_plugin("layers_of_lab.plugin")
        found.append(method_version("plugged-h"))
    assert found[0] != found[1]


@pytest.mark.parametrize(
    "line",
    [
        'RATIO = importlib.import_module("layers_of_mine").RATIO',
        'from importlib import import_module\nRATIO = import_module("layers_of_mine").RATIO',
        'RATIO = __import__("layers_of_mine").RATIO',
    ],
)
def test_the_version_follows_helpers_that_a_call_imports(line, tmp_path, forget):
    found = []
    for ratio in (0.5, 0.25):
        plugin = write_plugin(tmp_path, f"RATIO = {ratio}\n")
        plugin.write_text("import importlib\n" + PLUGIN.replace(IMPORT, line))
        load_plugin(plugin)
        assert ratio_of_plugged() == ratio
        found.append(method_version("plugged-h"))
    assert found[0] != found[1]


def test_the_version_follows_helpers_of_a_package_that_a_call_imports(tmp_path, forget):
    plugin = tmp_path / "layers_of_lab" / "plugin.py"
    plugin.parent.mkdir()
    (plugin.parent / "__init__.py").write_text("")
    plugin.write_text('import importlib\nimportlib.import_module(".parts", __package__)\n')
    (plugin.parent / "parts.py").write_text("")
    assert plugin.parent / "parts.py" in source_version.source_files([plugin])


def ratio_of_plugged():
    return build("plugged-h", Shape(5, 3, hidden=8, settings={})).pools[0].ratio


def test_a_plugin_that_changed_is_loaded_again(tmp_path, forget):
    plugin = write_plugin(tmp_path)
    load_plugin(plugin)
    versions = [method_version("plugged-h")]
    write_plugin(tmp_path, "RATIO = 0.25\n")
    load_plugin(plugin)
    assert ratio_of_plugged() == 0.25
    versions.append(method_version("plugged-h"))
    plugin.write_text("1 / 0\n")
    with pytest.raises(SagpoolError, match="cannot be imported: ZeroDivisionError"):
        load_plugin(plugin)
    assert method_version("plugged-h") == versions[1]
    plugin.write_text(PLUGIN.replace("RATIO,", "0.125,").replace("plugged(", "renamed("))
    load_plugin(plugin)
    assert ratio_of_plugged() == 0.125
    versions.append(method_version("plugged-h"))
    plugin.write_text(PLUGIN.replace("plugged-h", "other-name-h"))
    load_plugin(plugin)
    assert "plugged-h" not in methods()
    assert len({*versions, method_version("other-name-h")}) == 4


def test_a_reload_that_leaves_old_code_of_a_changed_file_is_refused(tmp_path, monkeypatch, forget):
    write_plugin(tmp_path).rename(tmp_path / "layers_of_plugin.py")
    monkeypatch.syspath_prepend(tmp_path)
    plugin = importlib.import_module("layers_of_plugin")
    before = method_version("plugged-h")
    importlib.reload(plugin)
    assert method_version("plugged-h") == before
    (tmp_path / "layers_of_mine.py").write_text("RATIO = 0.25\n")
    with pytest.raises(SagpoolError, match=r"layers_of_mine\.py has changed since it was imported"):
        importlib.reload(plugin)
    assert method_version("plugged-h") == before
    importlib.reload(sys.modules["layers_of_mine"])
    importlib.reload(plugin)
    assert method_version("plugged-h") != before
    assert ratio_of_plugged() == 0.25


HELPER = """
from functools import wraps
from sagpool.models import hierarchical, register
from torch_geometric.nn import TopKPooling

def method_of(layer):
    return lambda shape: hierarchical(
        shape, lambda block: layer(shape.hidden, shape.ratio, members=shape.members)
    )

def logged(build):
    return wraps(build)(lambda shape: build(shape))

def topk(**options):
    return lambda s: TopKPooling(s.hidden, s.ratio, **options)

def add(name, layer):
    register(name)(method_of(layer))
"""


@pytest.mark.parametrize(
    "line",
    [
        'register("plugged-h")(gpool_h)',
        'register("plugged-h")(wraps(gpool_h)(method_of(GPool)))',
        'register("plugged-h")(method_of(GPool))',
        'register("plugged-h")(logged(method_of(GPool)))',
        'register_pyg("plugged-h", topk(multiplier=1.0))',
        'add("plugged-h", GPool)',
    ],
)
def test_the_version_follows_the_file_that_registers(line, tmp_path, forget):
    found = []
    for folder, ending in (("one", ""), ("two", ""), ("other", "# another layer\n")):
        registry._methods.pop("plugged-h", None)
        sys.modules.pop("layers_of_mine", None)
        plugin = write_plugin(tmp_path / folder, HELPER)
        plugin.write_text(
            "from layers_of_mine import add, logged, method_of, topk, wraps\n"
            "from sagpool.models import register, register_pyg\n"
            "from sagpool.models.methods import gpool_h\n"
            f"from sagpool.nn import GPool\n{line}\n{ending}"
        )
        load_plugin(plugin)
        found.append(method_version("plugged-h"))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("copied", ["", "    @functools.wraps(build)\n"])
def test_two_files_with_the_same_decorator_do_not_share_a_name(tmp_path, forget, copied):
    (tmp_path / "layers_of_mine.py").write_text(
        "import functools\n\n"
        f"def logged(build):\n{copied}    def built(shape): return build(shape)\n    return built\n"
    )
    for name in ("c", "d"):
        (tmp_path / f"{name}.py").write_text(
            "from layers_of_mine import logged\n"
            "from sagpool.models import register\n\n"
            f'@register("plugged-h")\n@logged\ndef build_{name}(shape): pass\n'
        )
    load_plugin(tmp_path / "c.py")
    with pytest.raises(SagpoolError, match="a method named 'plugged-h' already"):
        load_plugin(tmp_path / "d.py")
    assert registry.find_method("plugged-h").origin.file == tmp_path / "c.py"


def test_a_plugin_does_not_get_the_helper_of_another_one(tmp_path, forget):
    load_plugin(write_plugin(tmp_path / "one"))
    second = write_plugin(tmp_path / "two", "RATIO = 0.25\n")
    second.write_text(PLUGIN.replace("plugged-h", "other-h"))
    with pytest.raises(SagpoolError, match=r"imports layers_of_mine, but .* rename one of them"):
        load_plugin(second)
    assert "other-h" not in methods()


def test_the_version_of_an_installed_package_is_that_of_the_package_alone(tmp_path, monkeypatch):
    site = tmp_path / "site-packages"
    for name, text in {
        "mine/__init__.py": "",
        "mine/pool.py": "import elsewhere\nfrom .layers import RATIO\ndef build(shape): pass\n",
        "mine/layers.py": "RATIO = 0.5\n",
        "elsewhere/__init__.py": "",
    }.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    found = source_version.with_local_imports(site / "mine" / "pool.py")
    assert [path.relative_to(site).as_posix() for path in found] == [
        "mine/__init__.py",
        "mine/layers.py",
        "mine/pool.py",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import nonsense_of_mine", "cannot be imported: ModuleNotFoundError"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        ("def f(:", "cannot be imported: SyntaxError"),
    ],
)
def test_a_plugin_that_fails_says_why(tmp_path, text, sentence):
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(SagpoolError, match=sentence):
        load_plugin(tmp_path / "broken.py")


def test_a_plugin_that_is_not_there(tmp_path):
    with pytest.raises(SagpoolError, match="no plugin file"):
        load_plugin(tmp_path / "none.py")
    with pytest.raises(SagpoolError, match="ModuleNotFoundError"):
        load_plugin("no_such_module")
