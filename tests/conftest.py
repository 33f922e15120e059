"""What is said after a run of the tests."""

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Add up the banks of wrong and right answers, from whichever worker judged them."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    tallies = [value for r in reports for key, value in r.user_properties if key == "bank"]
    if tallies:
        wrong, rejected, right, accepted = map(sum, zip(*tallies, strict=True))
        terminalreporter.write_line(
            f"bank of answers: {wrong} wrong answers, {rejected} rejected; "
            f"{right} right answers, {accepted} accepted"
        )
