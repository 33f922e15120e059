"""Real shapes of names, platform by platform: whose file is it, which number, when, how late?

Each sample is one that a platform's source, its documentation or a public tool shows, with other
names and numbers in it.
"""

import shutil
from datetime import datetime
from hashlib import sha256

import pytest
from handed import NAME, NOON, OTHER, submitted, take, work, write_roster

from grading.intake.due import DueDates, lateness
from grading.intake.platforms import export
from grading.intake.receipts import read_receipt
from grading.intake.roster import read_roster
from grading.intake.whose import owners
from grading.release.build import BuildError
from grading.settings import Places, timestamp

ROSTER = """id,name,email,number,group
ada01,Ada Lovelace,ada.lovelace@uni.example,4711,
s2,Jürgen Weiß,weiss@uni.example,4712,
al7,Anne-Marie Ampère,ampere@uni.example,812345,
ade,Adébáyọ̀ Oyelaran,ade@uni.example,4713,
rahul,राहुल कुमार,rahul@uni.example,,
mary,Mary Somerville,mary@uni.example,,Team 7
emmy,Emmy Noether,emmy@uni.example,,Team 7
"""
MOODLE = "_assignsubmission_file"

SAMPLES = [
    # platform, path, who without a roster, who with it, number
    # Moodle: mod/assign/classes/downloader.php, feedback/file/importziplib.php (4.1: no "_" last)
    ("moodle", f"Ada Lovelace_4711{MOODLE}/{NAME}.ipynb", "ada_lovelace", "ada01", "4711"),
    ("moodle", f"Ada Lovelace_4711{MOODLE}_/sub/x.ipynb", "ada_lovelace", "ada01", "4711"),
    ("moodle", f"Ada Lovelace_4711{MOODLE}_{NAME}.ipynb", "ada_lovelace", "ada01", "4711"),
    ("moodle", f"CS-{NAME}-99/Ada Lovelace_4711{MOODLE}/x.ipynb", "ada_lovelace", "ada01", "4711"),
    ("moodle", f"Lovelace Ada_9{MOODLE}/x.ipynb", "lovelace_ada", "ada01", "9"),
    ("moodle", f"Participant_4712{MOODLE}/x.ipynb", "participant_4712", "s2", "4712"),
    ("moodle", f"Participant_4712{MOODLE}_x.ipynb", "participant_4712", "s2", "4712"),
    ("moodle", f"Teilnehmerin_4712{MOODLE}_x.ipynb", "teilnehmerin_4712", "s2", "4712"),
    ("moodle", f"Team 7_88{MOODLE}/x.ipynb", "team_7", "mary emmy", "88"),
    # the number of somebody who is not in the team: the name may be a person's own choice
    ("moodle", f"Team 7_4711{MOODLE}/x.ipynb", "team_7", "", "4711"),
    # Canvas: lib/content_zipper.rb; samples of canvas-submission-sort and CS50's scripts
    ("canvas", f"lovelaceada_4711_998877_{NAME}.ipynb", "lovelaceada", "ada01", "4711"),
    ("canvas", f"lovelaceada_LATE_4711_998877_{NAME}-1.ipynb", "lovelaceada", "ada01", "4711"),
    ("canvas", "weißjürgen_4712_998878_my 04 work.ipynb", "weissjurgen", "s2", "4712"),
    # Ruby's [[:word:]] keeps the marks of a name
    ("canvas", "oyelaranadébáyọ̀_4713_998879_x.ipynb", "oyelaranadebayo", "ade", "4713"),
    ("canvas", "कुमारराहुल_4714_998880_x.ipynb", "", "rahul", "4714"),
    ("canvas", "anon_Xy3Zq_998877_x.ipynb", "anon_xy3zq", "", "Xy3Zq"),
    ("canvas", "submissions/LATE_anon_Xy3Zq_998877_x.ipynb", "anon_xy3zq", "", "Xy3Zq"),
    ("canvas", f"anon_a1B2c_98765_{NAME}.ipynb", "anon_a1b2c", "", "a1B2c"),
    # Blackboard: nbgrader's zip_collect, bb-file-cleanup
    ("blackboard", f"{NAME}_ada01_attempt_2026-11-28-10-00-00_x.ipynb", "ada01", "ada01", ""),
    ("blackboard", "Week  4_weiss_attempt_2026-11-28-10-00-00_a b.ipynb", "weiss", "s2", ""),
    # a student called the file so
    (
        "blackboard",
        "T_ada01_attempt_2026-11-28-10-00-00_weiss_attempt_2026-11-01-12-00-00_x.ipynb",
        *("ada01", "ada01", ""),
    ),
    # Brightspace: grader_helper, multi-clone, GradeFast and others
    (
        "brightspace",
        "812345-45102 - Anne-Marie Ampère - Nov 28, 2026 1000 AM/x.ipynb",
        *("anne_marie_ampere", "al7", "812345"),
    ),
    (
        "brightspace",
        "27236-46025 - s2 Weiß - 28 November 2026 105 PM/x.ipynb",
        *("s2_weiss", "s2", "27236"),
    ),
    (
        "brightspace",
        "1-2 - ada.lovelace Ada Lovelace - Jul 30, 2026 1053 PM - x.ipynb",
        *("ada_lovelace_ada_lovelace", "ada01", "1"),
    ),
    (
        "brightspace",
        "1-2 - Team 7 - Mary Somerville - Jul 30, 2026 1053 PM/x.ipynb",
        *("mary_somerville", "mary", "1"),
    ),
    (  # a student called the file so
        "brightspace",
        "1-2 - Ada Lovelace - Nov 28, 2026 1000 AM - Jürgen Weiß - Nov 01, 2026 1100 AM - x.ipynb",
        *("ada_lovelace", "ada01", "1"),
    ),
    # GitHub Classroom: ASSIGNMENT-USERNAME, as abc-classroom and gh classroom clone them
    ("github", f"04-self-attention-ada01/{NAME}.ipynb", "ada01", "ada01", ""),
    ("github", f"{NAME}-submissions/{NAME}-team-7/x.ipynb", "team-7", "mary emmy", ""),
    # folders of the lecturer's own
    ("folder", f"ada01_{NAME}.ipynb", "ada01", "ada01", ""),
    ("folder", f"ada01_{NAME} (1).ipynb", "ada01", "ada01", ""),
    ("folder", "ada01/Untitled3.ipynb", "ada01", "ada01", ""),
    ("folder", f"{NAME}/ada01/x.ipynb", "ada01", "ada01", ""),
    ("folder", f"ada01/{NAME}/{NAME}.ipynb", "ada01", "ada01", ""),
    ("folder", f"ADA01/{NAME}.ipynb", "ADA01", "ada01", ""),
    ("folder", f"Weiß, Jürgen/{NAME}.ipynb", "", "s2", ""),
    ("folder", f"{NAME}.ipynb", "", "", ""),
]


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample[1])
def test_a_name_tells_whose_a_file_is(
    places: Places, sample: tuple[str, str, str, str, str], listed: bool
) -> None:
    platform, path, alone, on_roster, number = sample
    if listed:
        write_roster(places, ROSTER)
    roster = read_roster(places)
    senders = export([path], "", frozenset()).senders(path)
    assert [(sender.platform, sender.number) for sender in senders] in ([(platform, number)], [])
    students = [student for sender in senders for student in owners(sender, roster).students]
    assert students == (on_roster if listed else alone).split()


def test_what_a_name_tells_becomes_a_receipt(places: Places) -> None:
    files = {path: work() for _, path, alone, *_ in SAMPLES[::5]}
    rows = [row for row in take(places, files) if row.counts]
    assert len(rows) >= 4
    for row in rows:
        receipt = read_receipt(row.student, NAME, places)
        assert receipt is not None
        told = (receipt.platform, receipt.number, receipt.path, receipt.by)
        assert told == (row.sender.platform, row.sender.number, row.path, row.student)
        assert receipt.digest == sha256(submitted(places, row.student)).hexdigest()


METADATA = """submission_1001:
  :submitters:
  - :name: Ada Lovelace
    :sid: ada01
    :email: ada.lovelace@uni.example
  :created_at: 2026-11-28 10:00:00.861687000 Z
  :score: 2.0
  :results:
    output: |-
      ==========
      Score: 2.0
submission_1002:
  :submitters:
  - :name: Mary Somerville
    :sid: ''
    :email: mary@uni.example
  - :name: Emmy Noether
    :email: emmy@uni.example
  :created_at: 2026-11-28 10:00:00.5 Z
"""


@pytest.mark.parametrize("listed", [False, True])
def test_gradescope_says_beside_its_folders_who_handed_in(places: Places, listed: bool) -> None:
    if listed:
        write_roster(places, ROSTER)
    top = "assignment_77_export/"
    # a student who writes such a file changes nothing
    forged = METADATA.replace("1001", "1003").encode()
    files = {
        f"{top}submission_{number}/x.ipynb": work(str(number)) for number in (1001, 1002, 1003)
    }
    files |= {f"{top}submission_metadata.yml": METADATA.encode()}
    files |= {f"{top}submission_1003/submission_metadata.yml": forged}
    rows = [row for row in take(places, files) if row.status != "missing"]
    people = {(row.student, row.path.split("/")[1][-4:], row.status) for row in rows}
    mary, emmy = ("mary", "emmy") if listed else ("mary_somerville", "emmy_noether")
    collected = {
        ("ada01", "1001", "collected"),
        (mary, "1002", "collected"),
        (emmy, "1002", "collected"),
    }
    assert people == collected | {("", "1003", "not recognised")}
    at = timestamp(places.submitted / "ada01" / NAME / f"{NAME}.ipynb")
    assert at is not None
    assert at.isoformat()[:19] == "2026-11-28T10:00:00"


@pytest.mark.parametrize(
    ("path", "known", "late"),
    [
        (f"lovelaceada_LATE_4711_9_{NAME}.ipynb", False, "marked late by canvas"),
        (f"lovelaceada_4711_9_{NAME}.ipynb", False, ""),
        (f"LATE_anon_4711_9_{NAME}.ipynb", False, "marked late by canvas"),
        (f"Ada Lovelace_4711{MOODLE}/x.ipynb", False, ""),
        (f"{NAME}-ada01/x.ipynb", False, ""),
        (f"{NAME}_ada01_attempt_2026-11-28-10-00-00_x.ipynb", True, "1 h 0 min after"),
        ("1-2 - Ada Lovelace - Nov 28, 2026 1100 AM/x.ipynb", True, "2 h 0 min after"),
        (f"ada01_{NAME}.ipynb", True, "2 d "),
    ],
)
def test_lateness_is_told_where_the_export_tells_it(
    places: Places, monkeypatch: pytest.MonkeyPatch, path: str, known: bool, late: str
) -> None:
    """The files of Moodle, Canvas and GitHub have the time of the download."""
    shutil.rmtree(places.home, ignore_errors=True)
    write_roster(places, ROSTER)
    due = datetime(2026, 11, 28, 9, 0).astimezone()
    monkeypatch.setattr(
        "grading.intake.collect.read_due_dates", lambda places: DueDates({NAME: due})
    )
    (row,) = [row for row in take(places, {path: work()}) if row.student == "ada01"]
    assert row.status == ("late" if late else "collected")
    assert (timestamp(places.submitted / "ada01" / NAME / "x") is not None) == known
    assert late in lateness("ada01", NAME, places, DueDates({NAME: due}))
    assert bool(lateness("ada01", NAME, places, DueDates({NAME: due}))) == bool(late)


def test_a_lecturers_own_pattern(places: Places) -> None:
    pattern = r"(?P<last_name>\w+)-(?P<first_name>\w+)-u(?P<student_id>\d+)/"
    rows = take(
        places, {"Lovelace-Ada-u12/x.ipynb": work(), "other/x.ipynb": work()}, pattern=pattern
    )
    assert [(row.student, row.status) for row in rows] == [
        ("", "not recognised"),
        ("12", "collected"),
    ]
    for wrong, told in (("(", "no regular expression"), ("x(?P<id>.)", "student_id, name")):
        with pytest.raises(BuildError, match=told):
            take(places, {}, pattern=wrong)


def test_who_hands_in_again_under_the_same_number_is_the_same(places: Places) -> None:
    take(places, {f"lovelaceada_4711_1_{NAME}.ipynb": work("old")})
    later = {f"lovelaceada_LATE_4711_2_{NAME}-1.ipynb": work("new")}
    (row,) = take(places, later, NOON.replace(hour=15))
    assert (row.student, row.status) == ("lovelaceada", "late")
    assert submitted(places, "lovelaceada") == work("new")
    several = {f"anon_a1B2c_{file}_{NAME}.ipynb": work(file) for file in ("11", "12")}
    rows = take(places, several)
    assert [(row.student, row.status) for row in rows] == [
        ("anon_a1b2c", "duplicate"),
        ("anon_a1b2c", "collected"),
    ]


def test_two_people_of_one_name_are_not_taken_for_one(places: Places) -> None:
    files = {f"Ann Lee_{number}{MOODLE}/x.ipynb": work(number) for number in ("3", "4")}
    rows = take(places, files)
    assert {(row.student, row.status) for row in rows} == {("ann_lee", "doubtful")}
    assert not places.submitted.exists()
    write_roster(places, "id,name,number\nann3,Ann Lee,3\nann4,Ann Lee,4\n")
    rows = take(places, files)
    assert [(row.student, row.status) for row in rows] == [
        ("ann3", "collected"),
        ("ann4", "collected"),
    ]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("Ann Lee_3_assignsubmission_file/x.ipynb", "Ann Lee 3 may be ann or lee7"),
        (
            f"Ada Lovelace_77{MOODLE}/x.ipynb",
            "its number or id is that of ann, its name is that of ada",
        ),
        (f"Team 9_77{MOODLE}/x.ipynb", "its number or id is that of ann, its name is not"),
        ("mallory/x.ipynb", "nobody on the roster is mallory"),
    ],
)
def test_a_doubt_is_told_and_nothing_is_guessed(places: Places, path: str, told: str) -> None:
    write_roster(places, "id,name,number\nada,Ada Lovelace,\nann,Ann Lee,77\nlee7,Lee Ann,\n")
    row = take(places, {path: work(path)})[0]
    assert (row.status, row.student) == ("not recognised", "")
    assert told in row.reason


def test_a_group_without_letters_is_not_every_name_without_letters(places: Places) -> None:
    write_roster(places, "id,name,group\nada,Ada,★\nbob,Bob,★\n")
    rows = take(places, {f"♥_5{MOODLE}/x.ipynb": work()})
    assert {(row.student, row.status) for row in rows if row.path} == {("", "not recognised")}


PLAIN = [f"{who}/x.ipynb" for who in ("ann", "bob")]
ODD = [f"mal/v_0_2_{i}.txt" for i in range(9)]
ZIPPED = [f"{who}_{i}{MOODLE}/x.ipynb" for i, who in enumerate(("ann", "bob"))]


@pytest.mark.parametrize(
    ("paths", "depth"),
    [
        (PLAIN + ODD, 0),
        ([f"Course/{path}" for path in PLAIN + ODD], 1),
        ([f"{NAME}/{path}" for path in PLAIN] + [f"{OTHER}/{path}" for path in ODD], 0),
        (["sue/v_0_2_x.txt", "list.csv"], 0),
        ([f"bob_{NAME}.ipynb", *(f"zoe/{who}_{NAME}.ipynb" for who in ("ann", "cy"))], 0),
        (ZIPPED, 0),
        (["lovelaceada_4711_9_x.ipynb", "bobb_4712_9_x.ipynb", *ODD], 0),
        ([f"CS-99/{path}" for path in ZIPPED], 1),
        ([f"CS-99/{path}" for path in ZIPPED] + ["list.csv", "grades.xlsx"], 1),
        ([f"{top}/{path}" for path in ZIPPED for top in ("CS-1", "CS-2")], 1),
        ([f"Autumn/CS-99/{path}" for path in ZIPPED], 2),
        ([f"Course/{who}_{NAME}.ipynb" for who in ("ann", "bob")] + ["list.csv"], 1),
        (["a/" * 3000 + "x"], 0),
    ],
)
def test_what_one_student_calls_files_changes_nothing_for_the_others(
    paths: list[str], depth: int
) -> None:
    assert export(paths, "", frozenset({"sue"})).depth == depth


def test_the_outer_name_decides_whose_it_is(places: Places) -> None:
    files = {
        f"bob/anna_{NAME}.ipynb": work("1"),
        f"carl/Anna_12{MOODLE}/x.ipynb": work("2"),
        f"dora/anna/{OTHER}.ipynb": work("3", OTHER),
        "anna/x.ipynb": work("hers"),
    }
    assert {row.student for row in take(places, files)} == {"bob", "carl", "dora", "anna"}
    assert submitted(places, "anna") == work("hers")
