"""Formgrader's button, in place of nbgrader's own steps: what `make grade` does, for one student.

`nbgrader_config.py` names it.
"""

from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor

from grading.child import Trouble
from grading.desk.faults import MachineFault
from grading.desk.records import How, keep, work_of
from grading.desk.submission import grade
from grading.sandbox.watch import SandboxError
from grading.settings import Places


class Graded(NbGraderPreprocessor):  # type: ignore[misc]
    """Grades a submission in the sandbox; the judge decides."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """The graded notebook; report and grades are written.

        Raises:
            NbGraderException: there is no graded notebook; the text says why.
        """
        about, course = resources["nbgrader"], self.config.CourseDirectory
        places = Places(Path(course.root, course.submitted_directory).parent)
        how = How(places, force=True)
        try:
            work = work_of(about["assignment"], about["student"], how)
            if work is None:
                raise NbGraderException("nothing was handed in")
            graded = grade(work)
            report = keep(graded, how)
        except (Trouble, SandboxError, MachineFault) as error:
            raise NbGraderException(str(error)) from error
        if not graded.notebook:
            raise NbGraderException(report.reason)
        notebook = nbformat.reads(graded.notebook.decode(), 4)  # type: ignore[no-untyped-call]
        return notebook, resources
