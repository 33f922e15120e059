"""The roster: the lecturer's own, or what a platform exports."""

import re

import pytest
from handed import take, work, write_roster

from grading.intake.roster import Student, read_roster
from grading.release.build import BuildError
from grading.settings import Places

ADA = Student("ada", "Ada Lovelace", "ada@uni.example")


@pytest.mark.parametrize(
    ("text", "student"),
    [
        # our own, as Excel writes it in Germany too; nbgrader's
        ("\ufeffID;Name\nada;Ada Lovelace\n", Student("ada", "Ada Lovelace")),
        (
            "id,name,email,number,group\nada,Ada Lovelace,ada@uni.example,47,Team 7\n",
            Student("ada", "Ada Lovelace", "ada@uni.example", "47", "Team 7"),
        ),
        ("id,first_name,last_name,email\nada,Ada,Lovelace,ada@uni.example\n", ADA),
        # Moodle: participants and grades (grade/import/csv/tests), the grading worksheet
        (
            '"First name","Last name","ID number","Email address",Groups\n'
            'Ada,Lovelace,ada,ada@uni.example,"Seminar A, Seminar B"\n',
            ADA,
        ),
        (
            'Identifier,"Full name","Email address",Status,Group,Grade,"Maximum Grade"\n'
            '"Participant 4711","Ada Lovelace",ada@uni.example,"Submitted",Team 7,,20.00\n',
            Student("ada@uni.example", "Ada Lovelace", "ada@uni.example", "4711", "Team 7"),
        ),
        (
            'Identifier,Status,Grade,"Maximum Grade"\n"Participant 4711",Submitted,,20.00\n',
            Student("participant_4711", number="4711"),
        ),
        # Canvas: the gradebook, with its row of points and its test student
        (
            "Student,ID,SIS User ID,SIS Login ID,Section,Exercise 4 (99)\n"
            "    Points Possible,,,,,20\n"
            '"Lovelace, Ada",4711,001,ada,CS-01,18\n"Student, Test",99,,bbbc67,CS-01,\n',
            Student("ada", "Ada Lovelace", number="4711"),
        ),
        # Gradescope
        (
            "First Name,Last Name,SID,Email,Role,Sections\n"
            "Ada,Lovelace,ada,ada@uni.example,Student,A\nCharles,B,,b@uni.example,Instructor,\n",
            ADA,
        ),
        # GitHub Classroom
        (
            "identifier,github_username,github_id,name,group_name\n"
            "ada@uni.example,countess,1815,Ada Lovelace,\n",
            Student("ada@uni.example", "Ada Lovelace", "ada@uni.example", "countess"),
        ),
        (
            'identifier,github_username,github_id,name\n"Lab 1, Ada",countess,1815,Ada Lovelace\n',
            Student("countess", "Ada Lovelace", number="countess"),
        ),
        # Blackboard's grade centre, Brightspace's grades
        (
            '"Last Name","First Name","Username","Student ID","Ex 4 [Total Pts: 20 Score] |5"\n'
            '"Lovelace","Ada","ada","M1815","18"\n',
            Student("ada", "Ada Lovelace", number="M1815"),
        ),
        (
            "OrgDefinedId,Username,Last Name,First Name,Email,End-of-Line Indicator\n"
            "#1815,#ada,Lovelace,Ada,ada@uni.example,#\n",
            Student("ada", "Ada Lovelace", "ada@uni.example", "1815"),
        ),
    ],
)
def test_a_platforms_own_export_is_a_roster(places: Places, text: str, student: Student) -> None:
    write_roster(places, text)
    assert read_roster(places) == [student]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id,name\n../x,A\n", "'../x' is no id"),
        ("id,name\n,A\n", "'' is no id"),
        ("id,name\n.git,A\n", "'.git' is no id"),
        ("id,name\na,A\nA,B\n", "stand there twice: A, a"),
        ("Vorname,Nachname\nAda,L\n", "has the columns vorname, nachname. Wanted are id and name"),
    ],
)
def test_a_bad_roster_is_told(places: Places, text: str, told: str) -> None:
    write_roster(places, text)
    with pytest.raises(BuildError, match=f"roster.csv.*{re.escape(told)}"):
        read_roster(places)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_roster_in_another_encoding(places: Places, encoding: str) -> None:
    write_roster(places, "")
    places.roster.write_bytes("id;name\r\ns1;Jürgen Weiß\r\n".encode(encoding))
    assert take(places, {"Weiß Jürgen/04_self_attention.ipynb": work()})[0].student == "s1"
