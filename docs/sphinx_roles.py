"""Docstrings say ``:meth:`nutime.NuTime.save```; the site, whose pages are Markdown, shows ``NuTime.save``."""

import re
from typing import Any

from griffe import Extension, Object

_ROLE = re.compile(r":(?:mod|class|meth|func|data|attr):`~?(?:nutime\.)?([^`]+)`")


class SphinxRoles(Extension):
    """Turn references of Sphinx into plain code."""

    def on_object(self, *, obj: Object, **more: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)
