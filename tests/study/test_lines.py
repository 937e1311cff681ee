"""Where the keys of a TOML file stand."""

import json
import tomllib

from hypothesis import given
from hypothesis import strategies as st

from pilotstudy.study.lines import key_parts, lines_of

TEXT = '''\
# a comment = 1
top.dotted = 1
"a b"."c.d" = """
[not.a.section]
still = "text" \\"""
"""""  # its end has five quotes
['quoted "section"'] # [x]
list = [ # ]
  1, "#", "[]",
  { inner = 3, v.w = "}" },
  [
    1979-05-27 07:32:00,
  ],
]
[[many]]
says = 'a'
[many.below]
key = 1
[[many]]
says = "b" # key =
'''
LINES = {
    ("top", "dotted"): 2,
    ("a b", "c.d"): 3,
    ('quoted "section"',): 7,
    ('quoted "section"', "list"): 8,
    ('quoted "section"', "list", 1): 9,
    ('quoted "section"', "list", 3, "inner"): 10,
    ('quoted "section"', "list", 3, "v", "w"): 10,
    ('quoted "section"', "list", 4, 0): 12,
    ("many", 0): 15,
    ("many", 0, "below", "key"): 18,
    ("many", 1): 19,
    ("many", 1, "says"): 20,
}


def test_lines():
    tomllib.loads(TEXT)
    found = lines_of(TEXT)
    assert {path: found.get(path) for path in LINES} == LINES


keys = st.one_of(st.text("ab-_1", min_size=1, max_size=3), st.text("ab.#=\"'[]é\\ \n", max_size=4))
texts = st.text("ab#=[]{}\"'\\\n,", max_size=8)
plain = st.one_of(st.integers(-9, 9), st.booleans(), texts, st.just(0.5))
values = st.recursive(
    plain,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=8,
)


class Writer:
    """Any content as TOML, in any of its styles."""

    def __init__(self, draw):
        self.draw = draw

    def some(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def key(self, key: str) -> str:
        bare = key and all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in key)
        return self.some(key, json.dumps(key)) if bare else json.dumps(key)

    def value(self, value: object, lines: bool = True) -> str:
        gap = self.some("", " ", "\n", " # ] } =\n\n") if lines else self.some("", " ")
        if isinstance(value, list):
            return f"[{gap}{''.join(f'{self.value(each, lines)}{gap},{gap}' for each in value)}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{self.key(key)} = {self.value(each, False)}' for key, each in value.items())}}}"
        if isinstance(value, str) and lines and not set(value) & set("\\\"'"):
            quotes = self.some('"""', "'''")
            return f"{quotes}\n{value}{quotes}"
        if isinstance(value, str) and not set(value) & set("\n'"):
            return self.some(f"'{value}'", json.dumps(value))
        return json.dumps(value)

    def table(self, table: dict, prefix: str = "") -> str:
        pairs, sections = [], []
        for key, value in table.items():
            name = self.key(key)
            gap = self.some("", "\n", "# [x]\n\n", "  ")
            if isinstance(value, dict) and value and self.some("section", "pair") == "section":
                sections.append(f"{gap}[{prefix}{name}] # of\n{self.table(value, f'{prefix}{name}.')}")
            elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
                parts = (f"{gap}[[ {prefix}{name} ]]\n{self.table(each, f'{prefix}{name}.')}" for each in value)
                sections += parts
            elif isinstance(value, dict) and len(value) == 1:
                (inner,) = value
                pairs.append(f"{gap}{name} . {self.key(inner)} = {self.value(value[inner])}\n")
            else:
                pairs.append(f"{gap}{name} = {self.value(value)} # end\n")
        return "".join(pairs + sections)


def leaves(value: object, path: tuple = ()):
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from leaves(inner, (*path, key))


@given(st.dictionaries(keys, values, max_size=4), st.data())
def test_the_line_of_every_key_holds_it(content, data):
    text = Writer(data.draw).table(content)
    assert tomllib.loads(text) == content
    found, lines = lines_of(text), text.split("\n")
    for path in leaves(content):
        key = next(part for part in reversed(path) if isinstance(part, str))
        line = lines[found[path] - 1]
        assert isinstance(path[-1], int) or key in line or json.dumps(key) in line
    assert set(leaves(content)) == set(found)


@given(st.lists(keys, min_size=1, max_size=3), st.data())
def test_a_dotted_key_is_read_as_toml_reads_it(parts, data):
    assert key_parts(".".join(Writer(data.draw).key(part) for part in parts)) == parts


def test_what_is_no_key_of_toml_is_cut_at_its_dots():
    assert key_parts("a..b") == ["a", "", "b"]
    assert key_parts("arms.é.x") == ["arms", "é", "x"]
    assert key_parts("a b.c") == ["a b", "c"]
