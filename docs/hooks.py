"""mkdocs calls this for each page: Sphinx roles in docstrings, such as :class:`.types.SkipState`, become plain code."""

import re

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):\s?<code>[~.]*(?:[\w.]+\.)?(\w+)</code>")


def on_page_content(html, **others):
    return ROLE.sub(r"<code>\1</code>", html)
