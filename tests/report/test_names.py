import itertools

import pytest
from matplotlib.colors import to_rgb

from sagpool.models import methods
from sagpool.report import names
from sagpool.report.colours import colour


@pytest.mark.parametrize(
    ("method", "plain", "html", "tex"),
    [
        ("sagpool-h", "SAGPool_h", "SAGPool<sub>h</sub>", "SAGPool$_h$"),
        ("set2set-g", "Set2Set_g", "Set2Set<sub>g</sub>", "Set2Set$_g$"),
        (
            "sagpool-h-parallel2",
            "SAGPool_(h, parallel, M=2)",
            "SAGPool<sub>h, parallel, M=2</sub>",
            r"SAGPool$_{h,\textrm{parallel, M=2}}$",
        ),
        ("my-g-pool-h", "my-g-pool_h", "my-g-pool<sub>h</sub>", "my-g-pool$_h$"),
        ("a<b>-h", "a<b>_h", "a&lt;b&gt;<sub>h</sub>", r"a\textless{}b\textgreater{}$_h$"),
        ("my_own", "my_own", "my_own", r"my\_own"),
    ],
)
def test_the_name_of_a_method_in_each_format(method, plain, html, tex):
    assert (names.plain(method), names.html(method), names.tex(method)) == (plain, html, tex)


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        ("[a] *", "{[}a] {*}"),
        ("α-Ω ά µ", r"$\alpha$-$\Omega$ $\alpha$ $\mu$"),
        ("Λ ς Α ο", r"$\Lambda$ $\varsigma$ A o"),
        ("naïve Łódź", "naïve Łódź"),
        ("H₂ ≤ 5²°…", r"H$_2$ $\leq$ 5$^2$$^\circ$\ldots{}"),
        ("中 한", "{[}U+4E2D] {[}U+D55C]"),
        ("a\nb\tc\x00", "a b c "),
        (r"a\b|", r"a\textbackslash{}b\textbar{}"),
    ],
)
def test_characters_that_pdflatex_does_not_know_or_takes_for_commands(text, tex):
    assert names.tex_escape(text) == tex


def test_methods_of_the_paper_come_first_in_its_order():
    given = ["random-h", "sagpool-h", "own-h", "set2set-g", "sagpool-h-cheb", "random-h"]
    assert names.in_order(given) == [
        *("set2set-g", "sagpool-h", "sagpool-h-cheb", "random-h", "own-h")
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(5e-4, "5e-4"), (0.005, "5e-3"), (0.5, "0.5"), (128, "128"), (0.0, "0")]
)
def test_settings_are_written_in_their_usual_notation(value, text):
    assert names.setting(value) == text


def luminance(tint: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(tint)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("method", [*methods(), "own-h", "another-g"])
@pytest.mark.parametrize("ground", ["#ffffff", "#14161a"])
def test_colours_stand_out_on_light_and_dark_pages(method, ground):
    darker, lighter = sorted([luminance(colour(method)), luminance(ground)])
    assert (lighter + 0.05) / (darker + 0.05) >= 3


def test_methods_of_one_panel_have_different_colours():
    by_architecture = itertools.groupby(
        sorted(methods(), key=names.architecture), names.architecture
    )
    for _, group in by_architecture:
        tints = [colour(method) for method in group]
        assert len(set(tints)) == len(tints)
