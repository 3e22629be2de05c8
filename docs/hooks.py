"""mkdocs calls this for each page: Sphinx roles in docstrings, such as :class:`.types.SkipState`, become plain code.
No line of text ends within the name of an option."""

import re

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):\s?<code>[~.]*(?:[\w.]+\.)?(\w+)</code>")
CODE = re.compile(r"<code>[^<]*</code>")  # within a sentence; the code of a block has tags
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def on_page_content(html, **others):
    html = ROLE.sub(r"<code>\1</code>", html)
    return CODE.sub(lambda code: OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html)
