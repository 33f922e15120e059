"""How every checkpoint is made: `python -m recipes NAME` trains it and writes its card.

Nothing in the library imports a recipe; `--table` measures the losses of the language models.
"""
