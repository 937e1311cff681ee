"""LaTeX that a journal takes: any text for any engine, and tables in booktabs at a size that can be read."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PLAIN = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
PLAIN |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "\n": " "}
PLAIN |= {"<": "$<$", ">": "$>$", "|": "$|$", '"': "''", "–": "--", "—": "---", "‘": "`", "’": "'"}
PLAIN |= {"“": "``", "”": "''", "…": r"\ldots{}", "•": r"\textbullet{}", "§": r"\S{}", "©": r"\copyright{}"}
PLAIN |= {"ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "ø": r"\o{}", "Ø": r"\O{}", "œ": r"\oe{}", "Œ": r"\OE{}"}
PLAIN |= {"ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}", "đ": "d", "Đ": "D", "\u2044": "/"}
MATHS = {"±": r"\pm", "≈": r"\approx", "°": r"^\circ", "†": r"\dagger", "‡": r"\ddagger", "−": "-", "×": r"\times"}
MATHS |= {"→": r"\to", "←": r"\gets", "↑": r"\uparrow", "↓": r"\downarrow", "≥": r"\geq", "≤": r"\leq", "≠": r"\neq"}
MATHS |= {"∞": r"\infty", "∈": r"\in", "∑": r"\sum", "√": r"\surd", "·": r"\cdot", "∂": r"\partial", "∇": r"\nabla"}
MATHS |= {"⊙": r"\odot", "²": "^2", "³": "^3", "¬": r"\neg", "∼": r"\sim", "∅": r"\emptyset", "✓": r"\surd"}
GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi"
CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
GREEK_NAMES = {*GREEK.split(), "omega", *CAPITALS.split()}
ACCENTS = {"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": "."}
ACCENTS |= {"\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c"}


def latex_text(text: str) -> str:
    """Any text in ASCII: nothing in it has a meaning to LaTeX, and no letter is lost, whatever the fonts have."""
    return "".join(map(_letter, unicodedata.normalize("NFC", text)))


def _letter(letter: str) -> str:
    if letter in PLAIN:
        return PLAIN[letter]
    if letter in MATHS:
        return f"${MATHS[letter]}$"
    if letter.isascii():
        return letter if letter.isprintable() else " "
    number = f"U+{ord(letter):04X}"
    name = number if unicodedata.category(letter) == "Lo" else unicodedata.name(letter, number).lower()
    if name.startswith("greek"):
        return _greek(letter, name)
    base, *marks = list(unicodedata.normalize("NFD", letter))
    if marks and base.isascii():
        known = [ACCENTS[mark] for mark in marks if mark in ACCENTS]
        return "".join(rf"\{mark}{{" for mark in known) + base + "}" * len(known)
    simpler = unicodedata.normalize("NFKD", letter)
    if simpler != letter:
        return "".join(map(_letter, simpler))
    if unicodedata.category(letter) in ("Mn", "Cf", "Me"):  # such as the joiners within an emoji
        return ""
    return f"[{name}]"


def _greek(letter: str, name: str) -> str:
    word = name.split(" letter ")[-1].split(" with ")[0].replace("lamda", "lambda").replace("final sigma", "sigma")
    word = word.capitalize() if letter.isupper() else word
    if word in GREEK_NAMES:
        return rf"$\{word}$"
    return f"[{word}]"


# ---- tables ----

WIDTH = 345.0  # points: the text of an article in one column; a journal's two columns have some 500
SIZES = {"normalsize": 10.0, "small": 9.0, "footnotesize": 8.0}
DIGIT = 0.53  # of its size: a digit's width, and nearly that of a letter
SMALLER = 0.75  # of the size around it: a deviation, or what stands below
GAP = 8.0  # points between columns
TALLEST = 437.0  # points of a table's rows; what has more is continued in another
LEADING = 1.2  # a line's height, of its size


def smaller(latex: str) -> str:
    return rf"{{\scriptsize {latex}}}"


@dataclass(frozen=True)
class Entry:
    """A row: its cells, and below them, smaller, what goes with them. All is LaTeX. Rows of a group stand together."""

    cells: Sequence[str]
    below: Sequence[str] = ()
    group: object = None

    @property
    def lines(self) -> list[str]:
        small = [smaller(text) if text else "" for text in self.below]
        first = f"    {' & '.join(self.cells)} \\\\"
        return [first, f"    {' & '.join(small)} \\\\[2pt]"] if any(small) else [first]


def latex_table(title: str, label: str, notes: str, head: Sequence[str], entries: Sequence[Entry]) -> str:
    """Tables no taller than a page, in the largest type that fits; it needs \\usepackage{booktabs} alone."""
    rows = [head, *(entry.cells for entry in entries)]
    rows += [[smaller(text) for text in entry.below] for entry in entries if entry.below]
    letters = sum(max(map(printed, column)) for column in zip(*rows, strict=True))
    fitting = [size for size, points in SIZES.items() if DIGIT * points * letters + GAP * len(head) <= WIDTH]
    size = fitting[0] if fitting else "footnotesize"
    kind = "table" if fitting else "table*"  # over both columns of a page that has two
    parts = list(pages(entries, int(TALLEST / (LEADING * SIZES[size]))))
    found = ["% needs \\usepackage{booktabs}"]
    if not fitting:
        found.append("% wide: over two columns, on a landscape page, or with fewer metrics (--metric)")
    for number, part in enumerate(parts):
        again = ["  \\addtocounter{table}{-1}"] if number else []
        caption = f"{title} (continued)" if number else title
        tag = f"\\label{{{label}}}" if not number else ""
        found += [
            f"\\begin{{{kind}}}",
            "  \\centering",
            *again,
            f"  \\caption{{{caption}.}}{tag}",
            f"  \\smallskip\\{size}",
        ]
        found += [f"  \\setlength{{\\tabcolsep}}{{{GAP / 2:g}pt}}", f"  \\begin{{tabular}}{{l{'c' * (len(head) - 1)}}}"]
        found += ["    \\toprule", f"    {' & '.join(head)} \\\\", "    \\midrule", *body(part), "    \\bottomrule"]
        found.append("  \\end{tabular}")
        if number == len(parts) - 1 and notes:
            found.append(f"  \\par\\medskip\\begin{{minipage}}{{\\linewidth}}\\footnotesize {notes}\\end{{minipage}}")
        found.append(f"\\end{{{kind}}}")
    return "\n".join(found)


def pages(entries: Sequence[Entry], most: int) -> Iterator[list[Entry]]:
    """Entries that have, together, at most so many lines."""
    page: list[Entry] = []
    for entry in entries:
        if sum(len(each.lines) for each in page) + len(entry.lines) > most:
            yield page
            page = []
        page.append(entry)
    yield page


def body(entries: Sequence[Entry]) -> Iterator[str]:
    for number, entry in enumerate(entries):
        if number and entry.group != entries[number - 1].group:
            yield "    \\midrule"
        yield from entry.lines


def printed(latex: str) -> float:
    """How many letters it prints, nearly; smaller ones count less."""
    small = "".join(re.findall(r"\{\\scriptsize (.*?)\}", latex))
    return _letters(latex) - (1 - SMALLER) * _letters(small)


def _letters(latex: str) -> int:
    return len(re.sub(r"\\[a-zA-Z]+|\\,|[{}$^\\]", lambda part: "x" if part[0][1:] in SHOWN else "", latex))


SHOWN = {command.strip("\\{}^$") for command in MATHS.values()} | GREEK_NAMES


def label_of(name: str) -> str:
    """A label in letters that every reference takes."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return f"tab:{re.sub(r'[^a-z0-9]+', '-', plain).strip('-') or 'study'}"
