"""What explains a prediction: importance of tokens, tests of attention, and adversaries against it.

Nothing here knows a particular model: a model is given as a function, or its maps as tensors; only
`patching` goes into a `Transformer`. Each module is imported by its name.
"""
