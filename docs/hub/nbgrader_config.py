"""nbgrader's settings for everybody on the hub: where exercises are handed out and handed in."""

from pathlib import Path

c = get_config()  # noqa: F821  (nbgrader defines it)
c.CourseDirectory.course_id = "attention"
c.Exchange.root = str(Path(__file__).resolve().parents[3] / "exchange")
c.Exchange.assignment_dir = str(Path.home() / "attention" / "exercises")
# The exchange is the lecturer's. Without this line nbgrader wants a folder that everybody may write
# to, and then any student can put another one in its place.
c.CourseDirectory.groupshared = True
