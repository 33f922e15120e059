"""The instructor's commands: `python -m grading COMMAND`, or make COMMAND, which calls them.

What each one does is told by `make help ARGS=--all`; `--home FOLDER` keeps another class
somewhere else.
"""

import argparse
import sys
from datetime import datetime
from pathlib import Path

from grading.settings import ROOT, Places, class_folder

EXERCISE = "the exercise, such as 04_self_attention"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    main = argparse.ArgumentParser(prog="python -m grading", description=__doc__)
    main.add_argument("--home", type=Path, default=class_folder(), help="where the class is kept")
    main.add_argument("--dist", type=Path, default=ROOT / "dist", help="where archives go")
    commands = main.add_subparsers(dest="command", required=True)
    command = commands.add_parser("exercises", help="write exercises/ from solutions/")
    command.add_argument("names", nargs="*", metavar="NAME", help="some of them; all if none")
    commands.add_parser("student", help="write the students' copy of the course")
    command = commands.add_parser("release", help="write an archive to hand out, note the due date")
    command.add_argument("name", metavar="NAME", help=EXERCISE)
    command.add_argument("--due", type=due_date, help="such as 2026-12-01T12:00, in local time")
    command = commands.add_parser("collect", help="take in what was handed in")
    command.add_argument("source", metavar="FROM", type=Path, help="a folder or a zip file")
    command.add_argument("--pattern", default="", help="a regular expression with named groups")
    command = commands.add_parser("grade", help="grade in a sandbox")
    command.add_argument("names", nargs="*", metavar="NAME", help="exercises; all if none")
    command.add_argument("--force", action="store_true", help="grade again what is graded already")
    command.add_argument("--unsafe", action="store_true", help="grade without a sandbox")
    command.add_argument("--workers", type=int, help="how many at a time; one a core if left out")
    command.add_argument("--cluster", metavar="ADDRESS", default="", help="of a dask scheduler")
    command = commands.add_parser("feedback", help="write a page per student")
    command.add_argument("names", nargs="*", metavar="NAME", help="exercises; all if none")
    commands.add_parser("marks", help="write the tables of marks")
    command = commands.add_parser("insights", help="write a page about what a class got wrong")
    command.add_argument("name", metavar="NAME", help=EXERCISE)
    command = commands.add_parser("similarity", help="write a folder of answers for JPlag or Dolos")
    command.add_argument("name", metavar="NAME", help=EXERCISE)
    return main


def due_date(text: str) -> datetime:
    """A due date from the command line."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date such as 2026-12-01T12:00") from None


def run(options: argparse.Namespace) -> int:  # noqa: C901, PLR0912 - a branch a command
    """Do what the command line says, and return the exit status."""
    from grading.release import build

    places = Places(options.home, options.dist)
    if options.command == "exercises":
        for name in options.names or build.names():
            changed = build.build(name)
            print(f"{name}: {', '.join(changed) + ' written' if changed else 'up to date'}")
    elif options.command == "student":
        print(f"written: {build.student_copy(places.dist)}")
    elif options.command == "release":
        print(f"written: {build.release(options.name, options.due, places)}")
        if options.due is not None:
            print(f"due: {options.due:%A, %Y-%m-%d %H:%M}, {options.due.tzname() or 'local time'}")
    elif options.command == "collect":
        from grading.intake.collect import collect, table

        print(table(collect(options.source, places, options.pattern)))
        print(f"written: {places.home / 'collected.csv'}")
    elif options.command == "grade":
        from grading.desk.classes import grade_all

        how = (options.force, options.unsafe, options.workers, options.cluster)
        return grade_all(options.names, places, *how)
    elif options.command == "feedback":
        from grading.reports.feedback import feedback

        for line in feedback(options.names, places):
            print(line)
    elif options.command == "marks":
        from grading.reports.exports import write_marks

        for line in write_marks(places):
            print(line)
    elif options.command == "insights":
        from grading.reports.insights import insights

        print(f"written: {insights(options.name, places)}")
    elif options.command == "similarity":
        from grading.reports.similarity import similarity

        for line in similarity(options.name, places):
            print(line)
    return 0


def main(words: list[str] | None = None) -> int:
    """Run a command, or stop it with Ctrl-C, also while it still imports."""
    try:
        return attempt(words)
    except KeyboardInterrupt:
        print("\nStopped. Nothing is lost; the same command goes on from here.", file=sys.stderr)
        return 130


def attempt(words: list[str] | None = None) -> int:
    """Run a command; what the instructor has to do is said in a sentence."""
    from sqlalchemy.exc import SQLAlchemyError

    from grading.release.build import BuildError

    try:
        return run(parser().parse_args(words))
    except (BuildError, FileNotFoundError) as error:
        told = str(error)
    except SQLAlchemyError as error:
        why = str(getattr(error, "orig", None) or error).split("\n")[0]
        told = (
            f"The gradebook cannot be used: {why}. Is another program holding it, or is it broken?"
        )
    except (OSError, MemoryError) as error:
        told = f"The machine has no room or no right: {error}. Nothing is lost; mend it and go on."
    print(f"\n{told}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
