"""Whose is a file? The roster decides; without one, what the platform calls its sender."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

from grading.intake.platforms import PLAIN, Sender, blind
from grading.intake.roster import ID, Student

MOST_WORDS = 5  # of a name whose words Canvas has run together


@dataclass(frozen=True)
class Owners:
    """Who handed a file in.

    Attributes:
        students: their ids; several for a group, nobody if it cannot be told.
        sure: whether an id, a number or an address told it, and not a name that two may have.
        by: the id of the one who did it, or the name of the group.
        reason: why nobody is meant.
    """

    students: tuple[str, ...] = ()
    sure: bool = True
    by: str = ""
    reason: str = ""


def owners(sender: Sender, roster: Sequence[Student] | None) -> Owners:
    """Who is meant by what a platform wrote; nothing is guessed where two could be."""
    return unlisted(sender) if roster is None else listed(sender, roster)


def listed(sender: Sender, roster: Sequence[Student]) -> Owners:
    """Whom of the roster a sender means: a group, or a student by number, id, e-mail or name."""
    keyed = _by_key(sender, roster)
    group = sender.name or sender.student_id
    members = [s for s in roster if _run(group) and _run(s.group) == _run(group)]
    if members and all(student in members for student in keyed):  # others may bear the group's name
        return Owners(tuple(member.id for member in members), by=group)
    named = [student for student in roster if _is_called(student, sender)]
    if keyed and (keyed[0] not in named if named else _is_strange(keyed[0], sender)):
        name = f"that of {_ids(named)}" if named else "not"
        return Owners(reason=f"its number or id is that of {_ids(keyed)}, its name is {name}")
    meant = keyed or named
    if len(meant) == 1 and not keyed and _contradicts(meant[0], sender):
        reason = f"{_shown(sender)} has the name of {_ids(meant)}, and another number or address"
        return Owners(reason=f"{reason}: correct the roster, or call the file ID_EXERCISE.ipynb")
    if len(meant) == 1:
        return Owners((meant[0].id,), bool(keyed), meant[0].id)
    if meant:
        numbers = "write the platform's numbers into the roster's column number"
        return Owners(reason=f"{_shown(sender)} may be {_ids(meant)}: {numbers}")
    return Owners(reason=f"nobody on the roster is {_shown(sender)}")


def _contradicts(student: Student, sender: Sender) -> bool:
    """Whether a person of the same name is another one, by what a platform never changes.

    Moodle's numbers are others in every assignment, and so they tell nothing here.
    """
    pairs = {
        "canvas": [(sender.number, student.number)],
        "gradescope": [(sender.student_id, student.id), (sender.email, student.email)],
    }
    known = [pair for pair in pairs.get(sender.platform, ()) if all(pair)]
    return bool(known) and all(one.casefold() != other.casefold() for one, other in known)


def _run(text: str) -> str:
    """A name as Canvas writes it: without capitals, signs and spaces."""
    return plain(text).replace(" ", "")


def _is_strange(student: Student, sender: Sender) -> bool:
    """Whether a number alone means a student whose name shares no word: it may be a group's."""
    by_number = sender.number and student.number == sender.number
    named = sender.name and student.name and not blind(sender)
    shared = any(word in plain(sender.name) for word in plain(student.name).split())
    return bool(by_number and named and not shared)


def unlisted(sender: Sender) -> Owners:
    """The student whom a sender's own name makes, in a class without a roster."""
    if ID.fullmatch(sender.student_id):
        return Owners((sender.student_id,), by=sender.student_id)
    name = sender.name if sender.platform != PLAIN else ""
    words = plain(f"{name or 'anon'} {sender.number}" if blind(sender) else name)
    made = re.sub(r"[^a-z0-9]+", "_", words).strip("_")[:100]
    if made:
        return Owners((made,), sure=blind(sender), by=made)
    return Owners(reason=f"{_shown(sender)} makes no id: write a roster")


def _by_key(sender: Sender, roster: Sequence[Student]) -> list[Student]:
    """The students whom a number, an id or an address means, the surest first."""
    local = sender.email.partition("@")[0]
    ends = [s for s in roster if _ends(sender.before, s.id) or _ends(sender.before, s.number)]
    if ends:  # of a_smith and smith the longer one
        return [max(ends, key=lambda student: max(len(student.id), len(student.number)))]
    tiers = (
        (sender.number, lambda student: student.number),
        (sender.student_id, lambda student: student.id),
        (sender.student_id, lambda student: student.number),
        (sender.email, lambda student: student.email),
        (sender.student_id, lambda student: student.email),
        (sender.student_id, _account),
        (sender.email, lambda student: student.id),
        (local, lambda student: student.id),
    )
    for text, key in tiers:
        meant = [s for s in roster if text and key(s).casefold() == text.casefold()]
        if meant:
            return meant
    return []


def _ends(before: str, key: str) -> bool:
    """Whether what Blackboard wrote ends with an account."""
    return bool(key) and before.casefold().endswith(f"_{key.casefold()}")


def _account(student: Student) -> str:
    """What stands before the @ of an address, which is an account in many places."""
    return student.email.partition("@")[0]


def _is_called(student: Student, sender: Sender) -> bool:
    """Whether a sender has a student's whole name, with its words in any order.

    Canvas runs the words together; Brightspace may write the account before the name, or before
    the last name alone.
    """
    words = plain(sender.name or sender.student_id).split()
    own, group = plain(student.name).split(), plain(student.group).split()
    if group and words[: len(group)] == group:  # Moodle before 4.1: "Team A-Ada Lovelace"
        words = words[len(group) :]
    if not own or not words:
        return False
    if len(words) == 1 < len(own) <= MOST_WORDS:
        return words[0] in map("".join, permutations(own))
    account = sender.name.split()[0].casefold() if sender.name else ""
    keys = {key.casefold() for key in _keys(student)}
    return sorted(words) == sorted(own) or (
        account in keys and len(words) > 1 and set(words[1:]) <= set(own)
    )


def _keys(student: Student) -> Iterator[str]:
    """What means a student and no other, as far as it is known."""
    yield from filter(None, (student.id, student.number, _account(student)))


@lru_cache(10_000)
def plain(text: str) -> str:
    """A text without accents, capitals and signs, its words separated by spaces.

    >>> plain("Weiß, Jürgen-Peter"), plain("Ada ❤️ _ Lovelace")
    ('weiss jurgen peter', 'ada lovelace')
    """
    letters = unicodedata.normalize("NFKD", text)
    kept = "".join(c for c in letters if not unicodedata.combining(c)).casefold()
    words = "".join(c if _in_word(c) else " " for c in kept).split()
    return " ".join(word for word in words if any(map(str.isalnum, word)))


def _in_word(letter: str) -> bool:
    """Whether a sign is a letter, a digit, or a vowel that is written as a mark, as in Hindi."""
    return letter.isalnum() or unicodedata.category(letter).startswith("M")


def _ids(students: Sequence[Student]) -> str:
    return " or ".join(student.id for student in students)


def _shown(sender: Sender) -> str:
    """A sender, as the platform writes it."""
    words = (sender.name or sender.student_id or sender.email, sender.number)
    return " ".join(filter(None, words)) or "this one"
