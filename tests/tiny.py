"""Small transformers with random weights, for tests that need no trained one."""

from dataclasses import replace

import torch

from attnlib.models import Transformer, TransformerConfig, Translator

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


def translator():
    """A translating transformer of six layers of attention, each with three heads."""
    torch.manual_seed(0)
    settings = {"d_model": 12, "heads": 3, "layers": 2, "d_ff": 16, "positions": "rotary"}
    return Translator(9, 8, **settings).double().eval()


def sentences():
    """Four sources and targets for it."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(3, 9, (4, 5), generator=generator)
    return source, torch.randint(3, 8, (4, 6), generator=generator)


def gpt(dropout=0.1, seed=0):
    """A transformer of one layer that reads six of eleven tokens, to be trained."""
    sizes = {"d_model": 8, "layers": 1, "heads": 2, "d_ff": 8, "max_len": 6}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Transformer(TransformerConfig(11, dropout=dropout, **sizes))


def stream_of(n, seed=0):
    """So many tokens for it."""
    return torch.randint(11, (n,), generator=torch.Generator().manual_seed(seed))


def same(left, right):
    """Whether two state dictionaries are equal bit for bit."""
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


class Given(torch.nn.Module):
    """A "language model" whose hidden states are parameters: only its loss depends on anything."""

    def __init__(self, states, W_U):
        super().__init__()
        self.states, self.W_U = torch.nn.Parameter(states), torch.nn.Parameter(W_U)

    def hidden(self, ids):
        assert ids.shape == self.states.shape[:2]
        return self.states

    def unembed(self, x):
        return x @ self.W_U
