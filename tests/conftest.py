"""What is said after a run of the tests."""

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Add up the banks of answers, from whichever worker judged them, and show the library's table.

    The table is that of `tools/architecture.py`: what a room imports, and how long its code is.
    """
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    properties = [pair for r in reports for pair in r.user_properties]
    for table in (value for key, value in properties if key == "architecture"):
        terminalreporter.write_line(table)
    tallies = [value for key, value in properties if key == "bank"]
    if tallies:
        wrong, rejected, right, accepted = map(sum, zip(*tallies, strict=True))
        terminalreporter.write_line(
            f"bank of answers: {wrong} wrong answers, {rejected} rejected; "
            f"{right} right answers, {accepted} accepted"
        )
