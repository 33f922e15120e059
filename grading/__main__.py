"""The instructor's commands: `python -m grading COMMAND`, or make COMMAND, which calls them.

What each one does is told by `make help ARGS=--all`; `--home FOLDER` keeps another class
somewhere else.
"""

import argparse
import sys
from datetime import datetime
from pathlib import Path

from grading.settings import HOME, ROOT, Places


def parser() -> argparse.ArgumentParser:
    """The command line."""
    main = argparse.ArgumentParser(prog="python -m grading", description=__doc__)
    main.add_argument("--home", type=Path, default=HOME, help="where the class is kept")
    main.add_argument("--dist", type=Path, default=ROOT / "dist", help="where archives go")
    commands = main.add_subparsers(dest="command", required=True)
    one = commands.add_parser("exercises", help="write exercises/ from solutions/")
    one.add_argument("names", nargs="*", metavar="NAME", help="some of them; all if none is named")
    commands.add_parser("student", help="write the students' copy of the course")
    one = commands.add_parser("release", help="write an archive to hand out, note the due date")
    one.add_argument("name", metavar="NAME", help="the exercise, such as 04_self_attention")
    one.add_argument("--due", type=due_date, help="such as 2026-12-01T12:00, in local time")
    one = commands.add_parser("collect", help="take in what was handed in")
    one.add_argument("source", metavar="FROM", type=Path, help="a folder or a zip file")
    one = commands.add_parser("grade", help="grade in a sandbox")
    one.add_argument("names", nargs="*", metavar="NAME", help="exercises; all if none is named")
    one.add_argument("--force", action="store_true", help="grade again what is graded already")
    one.add_argument("--unsafe", action="store_true", help="grade without a sandbox")
    one.add_argument("--workers", type=int, help="how many at a time; one a core if left out")
    one.add_argument("--cluster", metavar="ADDRESS", default="", help="of a scheduler of dask's")
    one = commands.add_parser("feedback", help="write a page per student")
    one.add_argument("names", nargs="*", metavar="NAME", help="exercises; all if none is named")
    commands.add_parser("marks", help="write marks.csv")
    one = commands.add_parser("insights", help="write a page about what a class got wrong")
    one.add_argument("name", metavar="NAME", help="the exercise, such as 04_self_attention")
    return main


def due_date(text: str) -> datetime:
    """A due date from the command line."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date such as 2026-12-01T12:00") from None


def run(options: argparse.Namespace) -> int:
    """Do what the command line says, and return the exit status."""
    from grading import build

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
        from grading.collect import collect, table

        print(table(collect(options.source, places)))
    elif options.command == "grade":
        from grading.autograde import grade

        how = (options.force, options.unsafe, options.workers, options.cluster)
        return grade(options.names, places, *how)
    elif options.command == "feedback":
        from grading.marks import feedback

        for line in feedback(options.names, places):
            print(line)
    elif options.command == "insights":
        from grading.insights import insights

        print(f"written: {insights(options.name, places)}")
    elif options.command == "marks":
        from grading.marks import write_marks

        print(f"written: {write_marks(places)}")
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

    from grading.build import BuildError

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
