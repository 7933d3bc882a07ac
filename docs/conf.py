"""How Sphinx builds the site: `make docs`."""

import sys
from pathlib import Path

import sagpool

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "sagpool"
author = "The sagpool developers"
project_copyright = author
release = version = sagpool.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "commands",
    "field_comments",
    "kernel_files",
    "references",
    "repository_links",
    "room",
]
exclude_patterns = ["_build"]
templates_path: list[str] = []

# Markdown. Pages must also read well where directives are not known, so they use few.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # tests/docs/test_tutorials.py executes the notebooks

# Docstrings: Google's sections, and names of this package in single backticks.
default_role = "py:obj"
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Shapes", "params_style")]
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    # Made by scikit-learn, with references into its own documentation.
    "exclude-members": "set_fit_request, set_predict_request, set_score_request",
}
autosummary_generate = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "sagpool"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
copybutton_exclude = ".linenos, .gp, .go"
