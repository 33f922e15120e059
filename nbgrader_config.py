"""nbgrader's settings: where things lie, and who judges.

Read by nbgrader's commands and its Formgrader when they start in this folder, and by
`grading.settings`, so that `make grade` and the buttons do the same.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
if str(ROOT) not in sys.path:  # the buttons run in Jupyter's server, which does not know grading/
    sys.path.insert(0, str(ROOT))

from grading.settings import Places  # noqa: E402

places = Places()
c = get_config()  # noqa: F821  (nbgrader defines it)
c.CourseDirectory.root = str(ROOT)
c.CourseDirectory.course_id = "attention"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.submitted_directory = str(places.submitted)
c.CourseDirectory.autograded_directory = str(places.autograded)
c.CourseDirectory.feedback_directory = str(places.feedback)
# SQLite for one machine; for several, such as postgresql://user@host/gradebook
c.CourseDirectory.db_url = places.gradebook
# Formgrader's button Generate also writes the visible cases beside the exercise
c.GenerateAssignment.post_convert_hook = "grading.release.build.after_generating"
# the button Autograde grades as `make grade` does: in the sandbox, and the judge decides
c.Autograde.sanitize_preprocessors = []
c.Autograde.autograde_preprocessors = ["grading.desk.formgrader.Graded"]
