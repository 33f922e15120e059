# The course's commands. Everything happens in course.py; this file finds a Python for it.
#   make PYTHON=python3.12 lab      uses another Python
#   make TORCH_INDEX=cpu lab        takes PyTorch's smaller build, without CUDA (or from a URL)
#   make CLASS=FOLDER grade         keeps a class in another folder than class/

NEW_ENOUGH = import sys; sys.exit(sys.version_info < (3, 11))
FOUND := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	if $$p -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then echo $$p; break; fi; done)
ANY := $(shell command -v python3 || command -v python)
PYTHON ?= $(or $(FOUND),$(ANY))
COURSE = "$(PYTHON)" course.py

ifeq ($(PYTHON),)
$(error No Python was found. Install Python 3.11 or newer (python.org), then run make again)
endif

ifeq ($(shell command -v "$(PYTHON)"),)
$(error There is no Python of the name $(PYTHON). Give one that `command -v` finds, or leave PYTHON= out)
endif

.PHONY: help lab test quick chapters book slides pdf bench colab setup clean
.PHONY: exercises student release collect grade feedback marks insights similarity

help:
	@$(COURSE) help $(ARGS)

.DEFAULT:
	@$(COURSE) $@

INDEX = $(if $(TORCH_INDEX),--torch-index "$(TORCH_INDEX)")

lab test quick book pdf colab setup:
	@$(COURSE) $@ $(INDEX) $(ARGS)

chapters slides:
	@$(COURSE) $@ $(INDEX) $(NAMES) $(ARGS)

bench: # make bench load: these three name benchmarks here, and are no targets of their own
	@$(COURSE) bench $(INDEX) $(filter grading hub load,$(MAKECMDGOALS)) $(ARGS)

ifneq ($(filter bench,$(MAKECMDGOALS)),)
.PHONY: grading hub load
grading hub load:
	@:
endif

exercises student feedback marks insights similarity:
	@$(COURSE) $@ $(NAME) $(ARGS)

grade:
	@$(COURSE) grade $(NAME) $(if $(CLUSTER),--cluster "$(CLUSTER)") $(ARGS)

release:
	@$(COURSE) release $(NAME) $(if $(DUE),--due "$(DUE)") $(ARGS)

collect:
	@$(COURSE) collect $(if $(FROM),"$(FROM)") $(if $(PATTERN),--pattern '$(PATTERN)') $(ARGS)

clean:
	@$(COURSE) clean
