"""Griffe extension: docstrings as Markdown.

Roles of Sphinx (``:func:`join```) become links of the site, and examples blocks of code.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([\w.]+)`")
_LITERAL_BLOCK = re.compile(r"(?m)^::\n")
_EXAMPLE = re.compile(r"(?m)^Example:$")
_FREE_EXAMPLE = re.compile(r"(?m)^>>> .*(?:\n.+)*")


class Roles(griffe.Extension):
    """Rewrite every docstring once, when its object has been loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is None:
            return
        text = _LITERAL_BLOCK.sub("", obj.docstring.value)
        text = _EXAMPLE.sub("Examples:", text)
        text = _FREE_EXAMPLE.sub(lambda code: f"```pycon\n{code[0]}\n```", text)
        obj.docstring.value = _ROLE.sub(lambda role: _link(role[1], obj), text)


def _link(name: str, where: griffe.Object) -> str:
    """A link to a public name, or the name alone where no page shows it."""
    package = where.path.split(".", 1)[0]
    owner = where if where.is_class else where.parent
    if name.split(".", 1)[0] in ("bsjoin", "scheduling"):
        path = name
    elif owner is not None and owner.is_class and name in owner.members:
        path = f"{owner.path}.{name}"
    elif where.module.path.startswith("scheduling.spark"):
        path = f"scheduling.spark.{name}"
    elif where.module.path.startswith("bsjoin.sources"):
        path = f"bsjoin.sources.{name}"
    else:
        path = f"{package}.{name}"
    return f'<autoref identifier="{path}" optional><code>{name}</code></autoref>'
