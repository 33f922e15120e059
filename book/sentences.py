"""Sentences of Markdown: where they end, which is a title, and which example a question means."""

import re

END = re.compile(r"""([.?!][)"”*]*)\s+(?=[^a-z\s])""")
ABBREVIATION = re.compile(r"\b(?:al|approx|ca|cf|e\.g|eq|fig|i\.e|resp|vs)\.$", re.I)
APART = re.compile(r"\$[^$]*\$|`[^`]*`")  # formulas and code, in which a mark is no markup
INSTRUCTION = re.compile(r"(?:Choose|Click|Compare|Look|Move|Now|Press|Read|Set|Try|Turn)\b")
LINK = re.compile(r"\[((?:[^\[\]]|`[^`]*`)+)\]\([^)]*\)")
SPOKEN = re.compile(r"(?<![*\w])\*([A-Z][^*?]+)\*(?![*\w])(?: …)?(?! \()")  # no title of a paper
QUOTED = re.compile(r"[\"“]\s*([^\"”]+)[\"”]|`([^`]+)`")
MEANT = re.compile(r"\b(?:prompt|sentence)s?\b")
THEREFORE = re.compile(r"^So (\w)")
CITED = re.compile(r" \([^()]*(?:\b\d{4}|\bchapters? \d+)\)(?=[.:]?$)")  # at the end
LONG = 18  # words: a longer title ends at its colon or semicolon


def link_free(text: str) -> str:
    """Markdown without its links: their words stay."""
    return LINK.sub(r"\1", text)


def whole(text: str) -> bool:
    """Whether Markdown can stand alone: no bold, italics, formula or parenthesis is cut in two."""
    bare = APART.sub("", text)
    bold, italics = bare.count("**"), bare.replace("**", "").count("*")
    cut = bold % 2 or italics % 2 or bare.count("(") != bare.count(")")
    return not cut and "$" not in bare and "`" not in bare


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph of Markdown, in order.

    >>> sentences("Meng et al. (2022) say so. (It is. Really.) **Why?** Nobody knows.")
    ['Meng et al. (2022) say so.', '(It is. Really.)', '**Why?**', 'Nobody knows.']
    """
    ended, begin = list[str](), ""
    for piece in re.split(r"\n", END.sub(r"\1\n", " ".join(text.split()))):
        begin = f"{begin} {piece}".strip()
        if whole(begin) and not ABBREVIATION.search(begin):
            ended.append(begin)
            begin = ""
    return [*ended, begin] if begin else ended


def clauses(sentence: str) -> tuple[str, str]:
    """The first clause of a sentence that is long, and what follows it; or all of it, and nothing.

    >>> clauses("Two products matter: it is short.")
    ('Two products matter: it is short.', '')
    """
    if len(sentence.split()) > LONG:
        for mark in (": ", "; "):
            clause, _, others = sentence.partition(mark)
            if others and len(clause.split()) >= 5 and whole(clause):
                return clause, others[0].upper() + others[1:]
    return sentence, ""


def title(sentence: str) -> str:
    """A sentence as the title of a slide: without its last mark, and what it cites or follows from.

    Of a long sentence it is the first clause.

    >>> title("So it is small (Vig et al. 2020):")
    'It is small'
    """
    sentence = THEREFORE.sub(lambda begun: begun[1].upper(), CITED.sub("", sentence))
    return re.sub(r"[.:;,]+(\**)$", r"\1", clauses(sentence)[0])


def noticed(notice: str) -> list[str]:
    """The sentences of a text; what only says where to look, or hardly anything, comes last."""
    said = sentences(notice.removeprefix("**Notice.**"))
    return sorted(said, key=lambda one: bool(INSTRUCTION.match(one)) or len(one.split()) < 4)


def intro(paragraph: str) -> str:
    """The sentence that introduces what follows: the last one if it ends at a colon, or the first.

    >>> intro("There are two. They are these:")
    'They are these:'
    """
    said = sentences(paragraph)
    return said[-1] if said[-1].endswith(":") else said[0]


def examples(text: str) -> list[str]:
    """What a text quotes to be read by a model, as Markdown, in order.

    That is five words or more in italics that begin as a sentence does, and do not end as the title
    of a paper does, with a capital; or three tokens in code.
    """
    spoken = [(m, m[1].split()) for m in SPOKEN.finditer(text)]
    found = [m for m, words in spoken if len(words) > 4 and not words[-1][0].isupper()]
    found += list(re.finditer(r"`\w+(?: \w+){2,}`", text))
    return [m[0] for m in sorted(found, key=lambda m: m.start())]


def example(question: str, section: str, chapter: str) -> str:
    """The example that a question means, as Markdown: the last one before it, or none.

    Args:
        question: as Markdown.
        section: what its section said before it.
        chapter: what its chapter said before it, which counts if the question speaks of a prompt or
            a sentence, or names something of the example in quotes.
    """
    if examples(question):
        return ""
    if here := examples(section):
        return here[-1]
    before = "".join(examples(chapter)[-1:])
    names = ["".join(m.groups(default="")).strip() for m in QUOTED.finditer(question)]
    means = MEANT.search(question) or any(name and name in before for name in names)
    return before if means else ""
