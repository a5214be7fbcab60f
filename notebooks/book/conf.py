"""Settings of the site; build.py calls Sphinx with them. Everything a page needs is in the site itself."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "attnlab"
author = "The attnlab authors"
project_copyright = author
html_title = "attnlab"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxext.opengraph",
    "docstrings",
    "formulas",
    "linkable",
]
nitpicky = True

# The notebooks carry their outputs; what is interactive has a static picture beside it.
nb_execution_mode = "off"
nb_ipywidgets_js = {}
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
nb_merge_streams = True
nb_render_markdown_format = "myst"
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

html_math_renderer = "mathml"

autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"
autodoc_mock_imports = ["transformers", "equinox"]  # the reference shows their adapters without them
add_module_names = False
python_use_unqualified_type_names = True

copybutton_selector = "div.cell_input pre, div.highlight-python pre, div.highlight-sh pre"

# What a link to a page shows elsewhere: title, first sentences, and a card drawn of them. The card's address has to be
# absolute, so a site that is published says where: ATTNLAB_SITE=https://... make book
ogp_site_url = os.environ.get("ATTNLAB_SITE", "")
ogp_site_name = "attnlab: attention without the matrix"
ogp_description_length = 240
ogp_social_cards = {"site_url": "derived, run, counted", "line_color": "#cc79a7", "font": "DejaVu Sans"}

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["book.css"]
html_js_files = [(name, {"defer": "defer"}) for name in ("book.js", "present.js", "live/page.js")]
html_favicon = "static/icon.svg"
html_copy_source = False
html_theme_options = {"navigation_with_keys": False}  # an arrow key in a cell would leave the page
