"""What platforms export: one table of the names that they give, and what such a name says.

A name is written by the platform, so it is believed: whose the file is, and for some platforms
when it was handed in. What a student called the file stands behind it and says nothing, even if it
looks like a platform's name: the first that fits counts. Named groups are those of nbgrader's
`zip_collect`, with three more: `name`, `number` (the platform's own id of the person or the group)
and `late`.

Times: the zips of Moodle and Canvas are made when they are downloaded, and a clone of a repository
has the time of cloning, so for these nothing is known of when a file was handed in; Canvas marks
what is late. Blackboard and Brightspace write the time into the name, Gradescope beside it.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath

from grading.intake.gradescope import METADATA
from grading.intake.recognise import exercise_in, exercise_pattern
from grading.release.build import BuildError, names

PLAIN, OWN, HUB = "folder", "pattern", "hub"  # whose files keep the time of handing in
GRADESCOPE = "gradescope"
MOST_ABOVE = 4  # folders of a lecturer's own above a platform's names
GROUPS = (
    *("student_id", "name", "first_name", "last_name", "email", "number"),
    *("late", "timestamp", "file_id", "filename"),
)
# Moodle's word for a person whose name it hides: the string "participant" of mod_assign
BLIND = ("participant", "participante", "partecipante", "deelnemer", "teilnehmerin", "teilnehmer")
DATES = ("%b %d, %Y %I:%M %p", "%B %d, %Y %I:%M %p", "%d %B %Y %I:%M %p", "%d %b %Y %I:%M %p")
_NOISE = (
    "checks.json .ds_store thumbs.db desktop.ini timestamp.txt submission_secret.txt "
    f"index.html readme.md {METADATA}"
)
NOISE = frozenset(_NOISE.split())


@dataclass(frozen=True)
class Sender:
    """Who handed a file in, and when, as far as the platform's name for it says.

    Attributes:
        platform: the name of the shape.
        student_id: an account, or what a lecturer's folder calls the student.
        name: such as "Ada Lovelace" or "Lovelace, Ada"; Canvas writes "lovelaceada".
        email: an address.
        number: the platform's own id of the person or the group.
        late: whether the platform says that the file is late.
        time: when it was handed in, if the platform wrote that down.
        before: in Blackboard's names, the title and the account, which may both have a "_".
    """

    platform: str
    student_id: str = ""
    name: str = ""
    email: str = ""
    number: str = ""
    late: bool = False
    time: datetime | None = None
    before: str = ""

    @property
    def timed(self) -> bool:
        """Whether a file's own time in such an export is the time of handing in."""
        return self.platform in (PLAIN, OWN, HUB)


@dataclass(frozen=True)
class Shape:
    """How a platform calls a folder or a file: a pattern that the whole of it has."""

    platform: str
    pattern: str

    def read(self, part: str) -> Sender | None:
        """What a part of a path says, or None if it has another shape."""
        match = re.fullmatch(self.pattern, part, re.DOTALL)
        return read_groups(self.platform, match.groupdict()) if match else None


SHAPES = (
    # mod/assign/classes/downloader.php of Moodle 4 and 5: NAME_NUMBER_assignsubmission_file/…,
    # with "_" at the end of the folder before 4.1, and one long file name without folders. A
    # team's folder has the group's name and number, a blind one's "Participant" for the name.
    Shape(
        "moodle",
        r"(?P<name>[^_]+)_(?P<number>\d+)_assignsubmission_(file|onlinetext)(_(?P<filename>.*))?",
    ),
    # lib/content_zipper.rb of Canvas, get_filename and add_upload_submission:
    # lastfirst_[LATE_]USER_FILE_name.ipynb, and without names [LATE_]anon_CODE_FILE_name.ipynb
    # The latter stands first: a file's own name may begin with digits, as those of exercises do.
    Shape("canvas", r"(?P<late>LATE_)?anon_(?P<number>[^_]+)_(?P<file_id>\d+)_(?P<filename>.+)"),
    # Of a name stays what Ruby calls [[:word:]]: with accents and vowels that Python's \w lacks.
    Shape(
        "canvas",
        r"(?P<name>[\w\u0080-\U0010ffff]+?)_(?P<late>LATE_)?(?P<number>\d+)_(?P<file_id>\d+)"
        r"_(?P<filename>.+)",
    ),
    # Gradescope's "Download Submissions": submission_NUMBER/…; submission_metadata.yml says whose
    Shape(GRADESCOPE, r"submission_(?P<number>\d+)"),
    # Blackboard's "Assignment File Download", as nbgrader's zip_collect and bb-file-cleanup read
    # it: TITLE_USERNAME_attempt_2016-01-30-15-00-00_problem1.ipynb
    Shape("blackboard", r"(?P<before>.+?)_attempt_(?P<timestamp>\d{4}(-\d\d){5})_(?P<filename>.+)"),
    # Brightspace's download, as grader_helper, multi-clone and GradeFast read it:
    # 123456-789012 - [GROUP - ][USERNAME ]NAME - Nov 28, 2026 1000 AM[ - name.ipynb]
    Shape(
        "brightspace",
        r"(?P<number>\d+)-\d+ - (.+? - )??(?P<name>((?! - ).)+)"
        r" - (?P<timestamp>[^-]*\d{4} [^-]*?)( - (?P<filename>.+))?",
    ),
    # GitHub Classroom: repositories ASSIGNMENT-USERNAME or ASSIGNMENT-TEAM, which `gh classroom
    # clone student-repos` lays into a folder ASSIGNMENT-submissions
    Shape(
        "github",
        rf"({'|'.join(map(exercise_pattern, names()))})-(?!submissions$)"
        r"(?P<student_id>[A-Za-z0-9][A-Za-z0-9-]*)",
    ),
)


def read_groups(platform: str, groups: Mapping[str, str | None]) -> Sender:
    """What the named groups of a pattern say."""
    words = {key: (value or "").strip() for key, value in groups.items()}
    name = words.get("name") or f"{words.get('first_name', '')} {words.get('last_name', '')}"
    return Sender(
        platform,
        words.get("student_id") or words.get("before", "").rpartition("_")[2],
        name.strip(),
        words.get("email", ""),
        words.get("number", ""),
        bool(words.get("late")),
        moment(words.get("timestamp", "")),
        words.get("before", ""),
    )


def moment(text: str) -> datetime | None:
    """A time as platforms write it, in the time zone of this machine if it names none, or None.

    >>> moment("2026-11-28-10-05-00").astimezone().isoformat()[:16]
    '2026-11-28T10:05'
    >>> moment("Nov 28, 2026 105 PM").astimezone().isoformat()[:16]
    '2026-11-28T13:05'
    """
    numbers = re.fullmatch(r"(\d{4}-\d\d-\d\d)-(\d\d)-(\d\d)-(\d\d)", text)
    text = "{}T{}:{}:{}".format(*numbers.groups()) if numbers else text
    text = re.sub(r" ?(UTC|UCT|Z)$", "+00:00", text)
    with suppress(ValueError):
        return datetime.fromisoformat(text).astimezone(UTC)
    text = re.sub(r"(\d{1,2}):?(\d\d) ([AP]M)$", r"\1:\2 \3", text)
    for form in DATES:
        with suppress(ValueError):
            return datetime.strptime(text, form).astimezone(UTC)
    return None


def blind(sender: Sender) -> bool:
    """Whether the platform hides who it is: then the number is all that tells people apart."""
    word = re.sub(r"\W", "", sender.name).casefold()
    return bool(sender.number) and (not word or word in BLIND)


def is_noise(path: str) -> bool:
    """Whether a file is nobody's work: what systems, Jupyter, git and platforms lay beside it."""
    parts = PurePosixPath(path).parts or ("",)
    hidden = any(part == "__MACOSX" or (part.startswith(".") and part != "..") for part in parts)
    about_an_attempt = re.search(r"_attempt_[\d-]+\.txt$", path)  # Blackboard's, for each student
    return hidden or bool(about_an_attempt) or parts[-1].casefold() in NOISE


@dataclass(frozen=True)
class Export:
    """What a lecturer downloaded: reads the paths in it.

    Attributes:
        pattern: a lecturer's own regular expression, or None.
        depth: how many folders stand above the platform's names.
        submitters: by Gradescope's folders, who handed in together, and when.
    """

    pattern: re.Pattern[str] | None = None
    depth: int = 0
    submitters: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)

    def senders(self, path: str) -> list[Sender]:
        """Who handed a file in together; nobody if its name has no shape that is known."""
        if self.pattern is not None:
            match = self.pattern.search(path)
            return [read_groups(OWN, match.groupdict())] if match else []
        parts = path.split("/")[self.depth :]
        sender = in_table(parts[0]) if parts else None
        if sender is None:
            return plain_sender(parts)
        if sender.platform != GRADESCOPE:
            return [sender]
        return [read_groups(GRADESCOPE, person) for person in self.submitters.get(parts[0], ())]


def export(paths: Sequence[str], pattern: str, students: frozenset[str]) -> Export:
    """How the paths of an export are to be read.

    Args:
        paths: all of them; what is in a student's zip is not among them.
        pattern: a lecturer's own regular expression, or empty.
        students: the ids on the roster, whose folders are never those of a whole class.

    Raises:
        BuildError: the pattern is no regular expression, or names nobody.
    """
    if pattern:
        return Export(own_pattern(pattern))
    depth = _depth(paths, students)
    if depth is None:
        depth = 1 if _wrapped(paths, students) else 0
    return Export(depth=depth)


def own_pattern(text: str) -> re.Pattern[str]:
    """A lecturer's own pattern.

    Raises:
        BuildError: it is no regular expression, or names nobody.
    """
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise BuildError(f"PATTERN={text!r} is no regular expression: {error}") from None
    unknown = pattern.groupindex.keys() - set(GROUPS)
    if unknown or not pattern.groupindex.keys() & {"student_id", "name", "last_name", "email"}:
        raise BuildError(
            f"PATTERN={text!r} has the named groups {sorted(pattern.groupindex)}; it needs"
            f" student_id, name, last_name or email, and can have of {', '.join(GROUPS)}"
        )
    return pattern


def in_table(part: str) -> Sender | None:
    """What the name of a folder or a file says, by the table of shapes."""
    return next((sender for shape in SHAPES if (sender := shape.read(part))), None)


def _depth(paths: Sequence[str], students: frozenset[str], most: int = MOST_ABOVE) -> int | None:
    """How many folders stand above the names of a platform; None if no platform's are found.

    Names count, and not files. Each outermost folder has a vote on how deep they stand, and all
    have to agree: whatever one student called files changes nothing for the others.
    """
    inside = _folders(paths)
    shaped = [name for name in inside if in_table(name)]
    if shaped:  # a few students may have names of which the table knows nothing
        return 0 if 2 * len(shaped) > len(inside) else None
    if not most or inside.keys() & students:
        return None
    votes = {_depth(inner, students, most - 1) for inner in inside.values() if inner}
    vote = votes.pop() if len(votes) == 1 else None
    return None if vote is None else vote + 1


def _folders(paths: Sequence[str]) -> dict[str, list[str]]:
    """The paths in each outermost folder, by its name; none for a file."""
    inside: dict[str, list[str]] = {}
    for path in paths:
        outer, _, inner = path.partition("/")
        inside.setdefault(outer, []).extend([inner] if inner else [])
    return inside


def _wrapped(paths: Sequence[str], students: frozenset[str]) -> bool:
    """Whether one folder is the class's: no student's, and no student's file lies beside it."""
    inside = _folders(paths)
    folders = [name for name, inner in inside.items() if inner]
    loose = [name for name, inner in inside.items() if not inner and plain_sender([name])]
    people = {person.student_id for path in paths for person in plain_sender(path.split("/")[1:])}
    return len(folders) == 1 and not loose and len(people) > 1 and folders[0] not in students


def plain_sender(parts: Sequence[str]) -> list[Sender]:
    """Who handed in, in a lecturer's own folder: `ID_EXERCISE.ipynb`, or `ID/` and anything.

    A folder for each exercise may stand above.

    >>> [plain_sender(["bob_04_self_attention (1).ipynb"])[0].student_id]
    ['bob']
    >>> [plain_sender(["04_self_attention", "bob", "Untitled.ipynb"])[0].student_id]
    ['bob']
    """
    if len(parts) > 1 and exercise_in(parts[0]) and not _before_exercise(parts[0]):
        parts = parts[1:]
    outer, folder = parts[0] if parts else "", len(parts) > 1
    student_id = _before_exercise(outer) or (re.sub(r"(?i)\.zip$", "", outer) if folder else "")
    return [Sender(PLAIN, student_id)] if student_id else []


def _before_exercise(part: str) -> str:
    """What stands before an exercise's name, such as `bob` in `bob_04_self_attention.ipynb`."""
    name = exercise_in(part)
    match = re.match(rf"(.+?)[-_ ]+{exercise_pattern(name)}", part, re.IGNORECASE) if name else None
    return match[1] if match else ""
