"""The instructor's tools, in rooms that follow the way of a submission (docs/architecture.md).

Nothing in here reaches a student: the copy for students (`make student`) leaves this package and
the solutions out, and a submission runs where neither of them can be seen.
"""
