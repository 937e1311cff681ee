"""A study as TOML."""

import json
import re
from collections.abc import Mapping


def toml_text(content: Mapping[str, object], prefix: str = "", *, unset: bool = False) -> str:
    """Plain values first, then sections; what is not set is left out, or, with `unset`, a comment."""
    plain, sections = [], []
    for name, value in content.items():
        key = _key(name)
        if isinstance(value, Mapping):
            sections.append(f"\n[{prefix}{key}]\n{toml_text(value, f'{prefix}{key}.', unset=unset)}")
        elif isinstance(value, list | tuple) and value and all(isinstance(entry, Mapping) for entry in value):
            sections += [f"\n[[{prefix}{key}]]\n{toml_text(entry, f'{prefix}{key}.', unset=unset)}" for entry in value]
        elif value is not None:
            plain.append(f"{key} = {_literal(value)}\n")
        elif unset:
            plain.append(f"# {key} is not set\n")
    return "".join(plain + sections)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _escaped(name)


def _literal(value: object) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {_literal(inner)}" for key, inner in value.items() if inner is not None)
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, str) and "\n" in value and _reads_as_it_is(value):
        return f"'''\n{value}'''"
    return _escaped(value)


def _escaped(value: object) -> str:
    """A JSON text is a TOML one but for U+007F, which TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _reads_as_it_is(text: str) -> bool:
    """Whether a text of several lines, such as code, can stand between three quotes, where nothing is escaped."""
    return (
        "'''" not in text
        and not text.endswith("'")
        and all(mark >= " " or mark in "\n\t" for mark in text)
        and "\x7f" not in text
    )
