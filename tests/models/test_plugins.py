"""Methods from files and packages outside of sagpool."""

import sys

import pytest

from sagpool import testing
from sagpool.errors import SagpoolError
from sagpool.models import load_plugin, method_version, methods, plugins, registry


@pytest.fixture(autouse=True)
def own_methods(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    monkeypatch.setattr(plugins, "_loaded", {})


PLUGIN = """
from sagpool.models import hierarchical, register
from sagpool.nn import GPool
from layers_of_mine import RATIO

@register("plugged-h", settings={"temperature": 0.5})
def plugged(shape):
    return hierarchical(shape, lambda block: GPool(shape.hidden, RATIO, members=shape.members))
"""


def write_plugin(folder, layers="RATIO = 0.5\n"):
    folder.mkdir(exist_ok=True)
    (folder / "layers_of_mine.py").write_text(layers)
    (folder / "plugin.py").write_text(PLUGIN)
    return folder / "plugin.py"


@pytest.fixture
def forget():
    yield
    for name in [name for name in sys.modules if name.startswith(("layers_of", "sagpool_plugin"))]:
        del sys.modules[name]


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
    found = plugins._with_local_imports(site / "mine" / "pool.py")
    assert [path.relative_to(site).as_posix() for path in found] == [
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
