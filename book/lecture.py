"""A chapter on its way to a lecture: its steps, and the slides that they make.

A slide is a step of the road, and no page of the notebook. First the question stands large over a
covered figure; then the figure is uncovered, and the sentence to notice is its title. What the
chapter says besides stands in the speaker's notes, and the code behind a key, unless its cell is
tagged `slide`: then the code, or the list, is the idea, and has a slide. The metadata of a cell may
hold a `title`, for what it shows, and an `example`, for what it asks.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from chapter_rules import is_folded
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from book.mathml import formula
from book.sentences import clauses, intro, link_free, sentences, title

PAINT = HtmlFormatter(style="a11y-high-contrast-light", nowrap=True)
MARKDOWN = (
    MarkdownIt("commonmark", {"html": True})
    .enable("table")
    .use(
        dollarmath_plugin,
        double_inline=True,
        renderer=lambda tex, options: formula(tex, options["display_mode"]),
    )
)
UNSEEN = {"Exercises", "Side roads", "References", "Appendix"}  # headings of what is not lectured
PREDICT, NOTICE = "**Predict.**", "**Notice.**"
CLAIMS = "What to remember"  # the heading over the theses
QUESTIONS = "Three questions"
WORDS = 50  # under a title, at most
TABLE = 180  # words and bars of a table on a slide
ROWS = 19  # of code on a slide: what is longer stays behind its key
LINES, WIDTH = 12, 80  # of what is printed on a slide: more is for a reader, not for the last row
PROSE = re.compile(r"[.:?!][)*”\"]*$", re.M)  # that a paragraph is one of sentences
SEEN = "**To see.**"  # before an alternative text, which nobody reads aloud
ASKED = "**Question.**"  # before what stands on the slide, and is read while the room votes
ITEM = re.compile(r"(?:[-*]|\d+\.) ")
DOCSTRING = re.compile(r'^ *"""(.+?)(?:\.(?=\s).*?|\.?)"""\n', re.M | re.S)  # and its title
REMARK = re.compile(rf"^(?=.{{{WIDTH + 1}}})(.*?\S)  # .*$", re.M)  # for which a line has no room
IMPORT = re.compile(r"^(?:(?:from \S+ )?import .*|\w+\.reveal\(.*\))(?:\n|\Z)", re.M)  # and reveals
CODE = re.compile(r"^[^#\n]", re.M)  # a line that is more than a remark
COVERED = '<div class="covered"></div>'
GUESS = "Predict("  # how the text of a prediction begins


@dataclass
class Slide:
    """One slide.

    Attributes:
        kind: title, figure, table, printed, code, formula, text, list or claims: what it shows.
        title: the sentence to remember, as Markdown.
        body: what stands under the title, as HTML.
        topic: the section that it belongs to, as Markdown.
        cover: the question that stands over all this first, as HTML, if there is one.
        folds: what opens over it, each as HTML: code, or what it printed, and how we know.
        notes: what the lecturer says to it, as Markdown.
    """

    kind: str
    title: str
    body: str = ""
    topic: str = ""
    cover: str = ""
    folds: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Shown:
    """Something that a step shows.

    Attributes:
        kind: of the slide that it makes.
        body: as HTML.
        said: before it, since the thing before it, as Markdown.
        name: the title in its cell's metadata, or the first sentence of its docstring.
        seen: the alternative texts of its pictures, as notes.
        printed: by a cell whose code is shown.
        code: before it, since the thing before it, and what that printed.
    """

    kind: str
    body: str
    said: list[str]
    name: str = ""
    seen: list[str] = field(default_factory=list)
    printed: str = ""
    code: list[str] = field(default_factory=list)

    @property
    def told(self) -> list[str]:
        """The paragraphs before it that are sentences."""
        return [block for block in self.said if PROSE.search(block) and not ITEM.match(block)]

    def title(self, topic: str) -> str:
        """What it says of itself, or the sentence that introduces it, or the topic."""
        return title(self.name or intro(self.told[-1])) if self.name or self.told else topic

    @property
    def notes(self) -> list[str]:
        """What is said with it."""
        return self.said + self.seen


@dataclass
class Step:
    """A step of the road.

    Attributes:
        asked: its question, as Markdown.
        example: that the question or the notice means, as Markdown: its cell's metadata name it.
        lead: what was said before the question, as Markdown.
        guess: the view in which the question is answered, as HTML.
        shown: what it shows.
        printed: what its cells printed, one text a cell.
        code: before its notice, since what it shows, and what that printed.
        revealed: the views that show answers beside the truth, as HTML.
        notice: what is to be noticed, as Markdown.
        cell: of the notice.
        before: what was said right before the notice, as Markdown.
        after: what the notice's cell says besides, as Markdown.
        extra: what the notice's cell shows: lists, tables, formulas.
        folds: that open over its last slide, as HTML.
    """

    asked: str = ""
    example: str = ""
    lead: list[str] = field(default_factory=list)
    guess: str = ""
    shown: list[Shown] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    revealed: list[str] = field(default_factory=list)
    notice: str = ""
    cell: str = ""
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    extra: list[Shown] = field(default_factory=list)
    folds: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether it has begun."""
        return bool(self.asked or self.shown or self.notice)


def idea(source: str) -> str:
    """The lines of code that a slide has room for: no import, reveal, docstring or long remark."""
    source = DOCSTRING.sub("", IMPORT.sub("", source), count=1).strip("\n")
    return REMARK.sub(r"\1", re.sub(r"\n\n\n+", "\n\n", source))


def said_of(source: str) -> str:
    """What code says of itself: the first sentence of its docstring, or nothing."""
    told = DOCSTRING.search(source)
    return " ".join(told[1].split()) if told else ""


def painted(source: str) -> str:
    """Code as HTML."""
    code = highlight(source, PythonLexer(), PAINT)
    return f'<pre class="code"><code>{code}</code></pre>'


def fold(title: str, inside: str) -> str:
    """What opens over a slide, as HTML."""
    return f"<details><summary>{title}</summary>{inside}</details>"


def code_fold(code: Sequence[str]) -> list[str]:
    """The fold of code, or of no more than it printed; none where there is neither."""
    text = "\n\n".join(code)
    if CODE.search(text):
        return [fold("Code", painted(text))]
    printed = re.sub(r"^# ?", "", text, flags=re.M)
    return [fold("Output", f"<pre>{html.escape(printed)}</pre>")] if printed else []


def blocks(source: str) -> list[str]:
    """The blocks of a Markdown cell, each as Markdown; a fold is one block."""
    lines, found, depth = source.splitlines(), list[str](), 0
    for token in MARKDOWN.parse(source):
        if token.level or token.map is None:
            continue
        text = "\n".join(lines[token.map[0] : token.map[1]]).strip()
        if depth:
            found[-1] += "\n\n" + text
        else:
            found.append(text)
        depth += text.count("<details") - text.count("</details>")
    return found


def quoted(example: str) -> str:
    """An example as HTML, if there is one."""
    return f"<blockquote>{MARKDOWN.renderInline(example)}</blockquote>" if example else ""


def words(text: str) -> int:
    """How many words HTML shows, formulas apart."""
    return len(re.sub(r"<math.*?</math>|<[^>]*>", " ", text, flags=re.S).split())


def paragraph(said: Sequence[str]) -> str:
    """As many first sentences as have room under a title, as HTML."""
    counts = list(accumulate(len(sentence.split()) for sentence in said))
    room = " ".join(
        sentence for sentence, count in zip(said, counts, strict=True) if count <= WORDS
    )
    return MARKDOWN.render(title(room) + "." if room.endswith(":") else room)


def listed(block: str) -> str:
    """A list as HTML; if it is long, the first sentence of each item."""
    items = re.split(r"\n(?=(?:[-*]|\d+\.) )", block)
    if len(block.split()) > WORDS:
        items = [sentences(item)[0] for item in items]
    return MARKDOWN.render("\n".join(item.rstrip(" ,;") for item in items))


def parted(table: str) -> list[str]:
    """A table of Markdown, in two if it is too long for one slide."""
    name, rule, *rows = table.splitlines()
    if len(table.split()) - len(rows) <= TABLE:
        return [table]
    middle = (len(rows) + 1) // 2
    return ["\n".join([name, rule, *part]) for part in (rows[:middle], rows[middle:])]


def short(shown: str) -> str:
    """HTML as it is, but a long table with the beginnings of its texts."""
    if words(shown) <= 3 * WORDS or not shown.startswith("<table"):
        return shown

    def begun(cell: re.Match[str]) -> str:
        text = cell[2].split()
        return cell[1] + " ".join(text[:6]) + (" …" if len(text) > 6 else "") + "</td>"

    return re.sub(r"(<td[^>]*>)([^<]*)</td>", begun, shown)


def readout(text: str) -> str:
    """What a cell printed, as HTML."""
    in_rows = max(map(len, text.splitlines())) <= WIDTH
    return f'<pre class="text{" rows" if in_rows else ""}">{html.escape(text)}</pre>'


def has_room(text: str) -> bool:
    """Whether what a cell prints can be read on a slide."""
    return 0 < sum(1 + len(line) // WIDTH for line in text.splitlines()) <= LINES


class Lecture:
    """A chapter on its way to a deck: the slides so far, and the step that goes on.

    Args:
        guesses: which outputs are views of predictions, and of which part (see `answers`).
    """

    def __init__(self, guesses: Mapping[tuple[str, int], str]) -> None:
        self.guesses = guesses
        self.slides: list[Slide] = []
        self.step = Step()
        self.topic, self.seen = "", True
        self.since = 0  # the first slide of this section
        self.code: list[str] = []  # since what was shown last
        self.said: list[str] = []
        self.last: Shown | None = None  # what was shown, if nothing was said since
        self.printed: list[str] = []  # since the last slide, by cells that answer no question

    def add(self, made: Slide, code: Sequence[str] = ()) -> None:
        """Take a slide, with the code behind its key."""
        made.topic = self.topic
        made.folds += code_fold(code)
        self.slides.append(made)
        self.printed = []

    def plain(self, shown: Shown) -> None:
        """A slide of something that stands under no sentence to notice."""
        made = Slide(shown.kind, shown.title(self.topic), shown.body, notes=shown.notes)
        self.add(made, shown.code)

    def waiting(self) -> list[str]:
        """What was said and stands on no slide yet."""
        said, self.said = self.said, []
        return said

    def code_waiting(self) -> list[str]:
        """The code that stands behind no slide yet."""
        code, self.code = self.code, []
        return code

    def close(self) -> None:
        """End a step: its slides are made."""
        step, self.step = self.step, Step()
        if step.asked or step.notice:
            self.staged(step)
            return
        for shown in step.shown:
            self.plain(shown)

    def staged(self, step: Step) -> None:
        """The slides of a step with a question or a notice: its code, its answer, what follows."""
        told = sentences(step.notice.removeprefix(NOTICE))
        rest = [others for sentence in told[:1] if (others := clauses(sentence)[1])]
        if not step.notice:
            step.code += self.code_waiting()
        answer = self.answer(step, rest + told[1:])
        answer[-1].code += step.code
        for shown in [*step.shown, *(shown for shown in answer if shown not in step.shown)]:
            if shown not in answer:
                shown.said = step.lead + shown.said
                self.plain(shown)
            else:
                # of several figures the last one is nearest to the notice
                at = 0 if shown is answer[-1] or len(told) == 1 else 1
                sentence = title(told[at]) if told else ""
                made = Slide(shown.kind, sentence, shown.body, notes=step.lead + shown.notes)
                if step.asked and shown is answer[0]:
                    self.ask(step, made)
                self.add(made, shown.code)
            step.lead = []
        self.slides[-1].notes += step.before
        if step.notice:
            name = "**Answer.**" if step.asked else "**Notice.**"
            self.slides[-1].notes.append(f"{name} {step.notice.removeprefix(NOTICE).strip()}")
        self.slides[-1].notes += step.after
        for shown in step.extra:
            if shown not in answer:
                self.plain(shown)
        self.slides[-1].folds += step.folds

    def answer(self, step: Step, rest: Sequence[str]) -> list[Shown]:
        """What stands under a step's sentence: figures, else tables, else numbers, else code.

        A sentence that answers no question is about what follows the step's last code.
        """
        code = [shown for shown in step.shown if shown.kind == "code"]
        shown_last = step.shown
        if code and not step.asked:
            shown_last = step.shown[step.shown.index(code[-1]) + 1 :]
        for kind in ("figure", "table", *(["formula"] if shown_last != step.shown else [])):
            if found := [shown for shown in (*shown_last, *step.extra) if shown.kind == kind]:
                step.code += [comment(text) for text in step.printed]
                return found
        if step.revealed:
            step.code += [comment(text) for text in step.printed]
            views = "".join(f'<div class="output">{view}</div>' for view in step.revealed)
            return [Shown("figure", views + paragraph(rest), [])]
        printed = step.printed or ([] if step.asked else self.printed)
        if code and (code[-1].printed or not printed):
            code[-1].body += readout(code[-1].printed) if has_room(code[-1].printed) else ""
            return [code[-1]]
        step.code += [comment(text) for text in step.printed if not has_room(text)]
        shown = "".join(readout(text) for text in step.printed or self.printed if has_room(text))
        if shown and not step.asked:  # whose question would show it
            shown = quoted(step.example) + shown
        return [Shown("printed" if shown else "text", shown + paragraph(rest), [])]

    def ask(self, step: Step, slide: Slide) -> None:
        """Put a step's question over a slide, with the example that it means."""
        asked = step.asked.removeprefix(PREDICT).strip()
        slide.title = slide.title or title(sentences(asked)[-1])
        slide.notes.insert(len(step.lead), f"{ASKED} {asked}")
        told = [(MARKDOWN.renderInline(one), one.endswith("?")) for one in sentences(asked)]
        question = " ".join(f"<b>{text}</b>" if asks else text for text, asks in told)
        slide.cover = (
            f'<div class="question">{quoted(step.example)}'
            f'<div class="asked">{question}</div></div>{step.guess or COVERED}'
        )

    def end(self) -> None:
        """End a section: it has one slide at least, and what is left to say belongs to its last."""
        self.close()
        if not self.said:
            return
        if self.since == len(self.slides):
            told = sentences("\n\n".join(self.said))
            lists = [listed(block) for block in self.said if ITEM.match(block)]
            shown = "".join(readout(text) for text in self.printed if has_room(text))
            kind = "list" if lists else "printed" if shown else "text"
            body = "".join(lists) or shown + paragraph(told[1:])
            self.add(Slide(kind, title(told[0]), body), self.code_waiting())
        self.slides[-1].notes += self.waiting()

    def heading(self, block: str) -> None:
        """Go on with a heading: a section ends, or a step."""
        self.topic = block.lstrip("# ")
        if block.startswith("## "):
            self.seen = self.topic not in UNSEEN
            self.since, self.printed = len(self.slides), []

    def markdown(self, block: str, cell: NotebookNode) -> None:
        """Go on with a block of Markdown."""
        beside = self.step.notice and cell.id == self.step.cell and not block.startswith(PREDICT)
        if block.startswith("## "):
            self.end()
            self.heading(block)
        elif not self.seen or block.startswith("<!--"):
            return
        elif block.startswith("### "):
            self.close()
            self.heading(block)
        elif block.startswith("<details"):
            self.folded(block, cell)
        elif self.topic in (CLAIMS, QUESTIONS):
            self.closing(block)
        elif block.startswith("$$"):
            body = MARKDOWN.render(re.sub(r"[.,;]\s*\$\$$", "$$", block))
            self.show("formula", body, cell)
        elif block.startswith("|"):
            self.tables(block, cell)
        elif ITEM.match(block) and (beside or "slide" in cell.metadata.get("tags", [])):
            self.show("list", listed(block), cell)
        elif beside:
            self.under(block)
            self.step.after.append(block)
        else:
            self.spoken(block, cell)

    def folded(self, block: str, cell: NotebookNode) -> None:
        """Go on with a fold; where a section has nothing else to show, its table has a slide."""
        table = "\n".join(line for line in block.splitlines() if line.startswith("|"))
        if table and self.said and not self.step and self.since == len(self.slides):
            self.tables(table, cell)
            return
        named = re.sub(r"<summary>.{40,}?</summary>", "<summary>More</summary>", block)
        (self.step if self.step else self.slides[-1]).folds.append(MARKDOWN.render(named))

    def tables(self, block: str, cell: NotebookNode) -> None:
        """Go on with a table of Markdown, on two slides if it is long."""
        first, *second = parted(block)
        begun = self.show("table", MARKDOWN.render(first), cell)
        for part in second:
            self.show("table", MARKDOWN.render(part), cell).name = begun.title(self.topic)

    def under(self, block: str) -> None:
        """What is said first after a formula stands under it."""
        last, self.last = self.last, None
        if last and last.kind == "formula":
            said = [sentence for sentence in sentences(block) if not sentence.endswith("?")]
            last.body += paragraph(said[:2])

    def spoken(self, block: str, cell: NotebookNode) -> None:
        """Go on with a question, with a notice, or with what is said."""
        example = cell.metadata.get("example", "")
        if block.startswith(PREDICT):
            if self.step:
                self.close()
            self.step = Step(asked=block, example=example, lead=self.waiting())
            self.printed = []
        elif block.startswith("**Notice"):
            if self.step.notice:
                self.close()
            self.step.notice, self.step.cell = block, cell.id
            self.step.example = self.step.example or example
            self.step.before += self.waiting()
            self.step.code += self.code_waiting()
        else:
            self.under(block)
            self.said.append(block)

    def show(self, kind: str, body: str, cell: NotebookNode) -> Shown:
        """Go on with something to show; behind a notice of another cell a new step begins."""
        if self.step.notice and cell.id != self.step.cell:
            self.close()
        name = cell.metadata.get("title", "")
        if self.step.notice:
            about = [self.step.notice.removeprefix(NOTICE), *self.step.after][-1]
            self.last = Shown(kind, body, [], name or intro(about))
            self.step.extra.append(self.last)
        else:
            self.last = Shown(kind, body, self.waiting(), name, code=self.code_waiting())
            self.step.shown.append(self.last)
        return self.last

    def text(self, cell: NotebookNode) -> None:
        """Go on with a cell of Markdown."""
        for block in blocks(link_free(cell.source)):
            self.markdown(block, cell)

    def closing(self, block: str) -> None:
        """Show one of the last parts, on one slide."""
        kind = "claims" if self.topic == CLAIMS else "list"
        self.add(Slide(kind, self.topic, MARKDOWN.render(block)))

    def cell(self, cell: NotebookNode) -> None:
        """Go on with a cell of code."""
        if not (self.seen and cell.source):
            return
        code = None
        shown = idea(cell.source)
        if "slide" in cell.metadata.get("tags", []) and shown.count("\n") < ROWS:
            code = self.show("code", painted(shown), cell)
            code.name = code.name or said_of(cell.source)
        elif not is_folded(cell):
            self.code.append(cell.source)
        for number, output in enumerate(cell.outputs):
            data = output.get("data", {})
            text = output.get("text", data.get("text/plain", "")).rstrip()
            if (cell.id, number) in self.guesses:
                self.guessed(self.guesses[cell.id, number], data["text/html"])
            elif text.startswith(GUESS):  # its view is of another run
                continue
            elif "text/html" in data:
                view = short(data["text/html"])
                kind = "table" if view.startswith("<table") else "figure"
                alts = re.findall(r'alt="([^"]*)"', view)
                made = self.show(kind, f'<div class="output">{view}</div>', cell)
                made.seen += [f"{SEEN} {alt}" for alt in alts]
            elif code:
                code.printed = f"{code.printed}\n{text}".strip("\n")
            elif self.step.asked and not self.step.notice:
                self.step.printed.append(text)
            else:
                self.code.append(comment(text))
                self.printed.append(text)

    def guessed(self, part: str, view: str) -> None:
        """Go on with a view of a prediction: where it is answered, or beside the truth."""
        if part == "ask" and not self.step.guess:
            self.step.guess = f'<div class="output">{view}</div>'
        elif part == "truth" and self.step.asked:
            self.step.revealed.append(view)


def comment(text: str) -> str:
    """What was printed, under the code that printed it."""
    return "# " + text.replace("\n", "\n# ")


def lecture(notebook: NotebookNode, guesses: Mapping[tuple[str, int], str]) -> list[Slide]:
    """The slides of a chapter: its title and its question first, what it claims last."""
    made = Lecture(guesses)
    (first, question, *goals), rest = notebook.cells[0].source.splitlines(), notebook.cells[1:]
    name = first.removeprefix("# ")
    made.add(Slide("title", name, MARKDOWN.render(question), notes=["\n".join(goals)]))
    for cell in rest:
        if cell.cell_type == "code":
            made.cell(cell)
        else:
            made.text(cell)
    made.end()
    return sorted(made.slides, key=lambda slide: slide.kind == "claims")
