"""Sentences of Markdown: where they end, and what is left of one in a title."""

import re

END = re.compile(r"""([.?!][)"”*]*)\s+(?=[^a-z\s])""")
ABBREVIATION = re.compile(r"\b(?:al|approx|ca|cf|e\.g|eq|fig|i\.e|resp|vs)\.$", re.I)
APART = re.compile(r"\$[^$]*\$|`[^`]*`")  # formulas and code, in which a mark is no markup
LINK = re.compile(r"\[((?:[^\[\]]|`[^`]*`)+)\]\([^)]*\)")
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
    """A sentence as the title of a slide: without its last mark; of a long one the first clause.

    >>> title("It is small:")
    'It is small'
    """
    return re.sub(r"[.:;,]+(\**)$", r"\1", clauses(sentence)[0])


def intro(paragraph: str) -> str:
    """The sentence that introduces what follows: the last one if it ends at a colon, or the first.

    >>> intro("There are two. They are these:")
    'They are these:'
    """
    said = sentences(paragraph)
    return said[-1] if said[-1].endswith(":") else said[0]
