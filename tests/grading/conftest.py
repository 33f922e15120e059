"""For every test of grading: a machine whose clock is not UTC, so that a forgotten zone shows."""

import os
import time

os.environ["TZ"] = "IST-5:30"  # before anything asks; a child has it too
time.tzset()
