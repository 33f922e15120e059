"""Small transformers with random weights, for tests that need no trained one."""

from dataclasses import replace

import torch

from attnlib.models import Transformer, TransformerConfig

D, WIDTH = 13, 8


def config_of(**changes):
    small = TransformerConfig(vocab_size=D, d_model=WIDTH, layers=2, heads=2, max_len=12)
    return replace(small, **changes)


def ids_of(seed, *shape):
    return torch.randint(D, shape, generator=torch.Generator().manual_seed(seed))


def model_of(config, seed=0):
    """A model in double precision: without norms the numbers of a random model grow large.

    No weight is left at zero, or a bias that is used wrongly would not be noticed.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Transformer(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.3 * torch.randn_like(parameter)
    return model.eval().double()


def assert_near(ours, theirs, atol=1e-7):
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)
