"""nbgrader's settings: where things lie, how much time a cell has, who judges.

Read by nbgrader's commands and its Formgrader when they start in this folder, and by
`grading.settings`, so that `make grade` and the buttons do the same.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
if str(ROOT) not in sys.path:  # the buttons run in Jupyter's server, which does not know grading/
    sys.path.insert(0, str(ROOT))

c = get_config()  # noqa: F821  (nbgrader defines it)
c.CourseDirectory.root = str(ROOT)
c.CourseDirectory.course_id = "attention"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.submitted_directory = str(Path("grading", "submitted"))
c.CourseDirectory.autograded_directory = str(Path("grading", "autograded"))
c.CourseDirectory.feedback_directory = str(Path("grading", "feedback"))
# SQLite for one machine; for several, such as postgresql://user@host/gradebook
c.CourseDirectory.db_url = os.environ.get("ATTNLIB_GRADEBOOK", "").replace(
    "postgresql://", "postgresql+psycopg://"
) or (f"sqlite:///{ROOT / 'grading' / 'gradebook.db'}")
# Formgrader's button Generate also writes the visible cases beside the exercise
c.GenerateAssignment.post_convert_hook = "grading.build.after_generating"
# the button Autograde grades as `make grade` does: in the sandbox, and the judge decides
c.Autograde.sanitize_preprocessors = []
c.Autograde.autograde_preprocessors = ["grading.preprocess.Graded"]
