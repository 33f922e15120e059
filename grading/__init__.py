"""What the instructor needs: tasks with references, the judge, the sandbox, the class runner.

Nothing in here reaches a student: the copy for students (`make student`) leaves this package and
the solutions out, and a submission runs where neither of them can be seen.
"""
