"""What a lecturer brought in a trial, and what came of it wrongly: whose a file is."""

import pytest
from handed import NAME, by_path, take, work, write_roster

from grading.intake.due import read_due_dates
from grading.release.build import BuildError
from grading.settings import Places

BLACKBOARD = "Last Name,First Name,Username,Student ID\nSmith,Anna,a_smith,1\nSmith,Bob,smith,2\n"
CANVAS = 'Student,ID,SIS Login ID,Section\n"Lovelace, Ada",9001,ada,S\n'
GRADESCOPE = "First Name,Last Name,SID,Email\nDana,Smith,1004,d@x.y\n"
MOODLE = "Identifier,Full name,ID number,Grade\nParticipant 40001,Ada Lovelace,ada,\n"
TEAM = "First name,Last name,ID number,Email address,group\nIvan,Petrov,ivan,i@x.y,Team A\n"
TEAM += "Judith,Kra,judith,j@x.y,Team A\n"
ATTEMPT = "attempt_2026-11-26-10-00-00"


@pytest.mark.parametrize(
    ("roster", "files"),
    [
        (
            BLACKBOARD,
            {
                f"Ex 1_a_smith_{ATTEMPT}_x.ipynb": ["a_smith"],
                f"Ex 1_smith_{ATTEMPT}_x.ipynb": ["smith"],
            },
        ),
        (CANVAS, {"lovelaceada_9777_1_x.ipynb": [], "lovelaceada_9001_2_x.ipynb": ["ada"]}),
        (
            MOODLE,
            {
                "Ada Lovelace_40777_assignsubmission_file/x.ipynb": [],
                "Ada Lovelace_40001_assignsubmission_file/x.ipynb": ["ada"],
            },
        ),
        (MOODLE, {"Ada Lovelace_40777_assignsubmission_file/x.ipynb": ["ada"]}),
        (TEAM, {"Team A_17_assignsubmission_file/x.ipynb": ["ivan", "judith"]}),
        (TEAM, {"Team A-Ivan Petrov_40_assignsubmission_file_/x.ipynb": ["ivan", "judith"]}),
        (TEAM, {f"Ex 1_Team A_{ATTEMPT}_x.ipynb": ["ivan", "judith"]}),
        (TEAM, {"teama_9011_1_x.ipynb": ["ivan", "judith"]}),
    ],
)
def test_a_file_counts_for_whom_it_names(
    roster: str, files: dict[str, list[str]], places: Places
) -> None:
    write_roster(places, roster)
    rows = take(places, {path: work(path) for path in files})
    for path, owners in files.items():
        counted = sorted(r.student for r in rows if r.path == path and r.status == "collected")
        assert counted == owners, path


def test_an_extension_of_somebody_unknown_is_told(places: Places) -> None:
    write_roster(places, "id,name\nada,Ada Lovelace\n")
    places.extensions.write_text(f"id,exercise,due\nHana,{NAME},2026-12-24\n")
    with pytest.raises(BuildError, match="gives more time to hana"):
        read_due_dates(places)


def test_an_extension_counts_against_the_platforms_word(places: Places) -> None:
    write_roster(places, CANVAS)
    path = "lovelaceada_LATE_9001_2_x.ipynb"
    assert by_path(take(places, {path: work("1")}))[path].status == "late"
    places.extensions.write_text(f"id,exercise,due\nada,{NAME},2026-12-24\n")
    assert by_path(take(places, {path: work("2")}))[path].status == "collected"
