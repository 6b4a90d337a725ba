"""Settings of the documentation site: `sphinx-build -W --keep-going docs build/site`."""

import os
import re

# The API reference imports TensorFlow; hide its start-up messages.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import t2t

project = "t2t"
author = "The t2t authors"
project_copyright = "The t2t authors, Apache License 2.0"
release = t2t.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = f"t2t {release}"
exclude_patterns = ["images"]

myst_heading_anchors = 4
nb_execution_mode = "off"  # the notebook is shown with its stored outputs; a test executes it

default_role = "code"  # docstrings write code in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
autodoc_default_options = {"members": True, "show-inheritance": True}

LINK_OUT_OF_DOCS = re.compile(r"\[([^\]]*)\]\(\.\./[^)]*\)")


def setup(app):
    """Replaces links to files outside docs/, which the site does not contain, by their text."""
    app.connect("source-read", _drop_links_out_of_docs)


def _drop_links_out_of_docs(app, name, source):
    source[0] = LINK_OUT_OF_DOCS.sub(r"\1", source[0])
