"""What explains a prediction: importance of tokens, tests of attention, and adversaries against it.

Nothing here knows a particular model: a model is given as a function, or its maps as tensors.
"""

from attnlib.explain.adversary import Adversary, adversarial_attention, exact_adversary
from attnlib.explain.aggregation import aggregate_maps, flow, reduce_map, rollout, schemes
from attnlib.explain.faithfulness import (
    RankCorrelation,
    jensen_shannon,
    kendall,
    permutation_shift,
    permute,
    random_scores,
    select,
    uniform,
)
from attnlib.explain.saliency import (
    aggregate,
    gradient,
    gradient_times_input,
    integrated_gradients,
    leave_one_out,
)

__all__ = [
    "Adversary",
    "RankCorrelation",
    "adversarial_attention",
    "aggregate",
    "aggregate_maps",
    "exact_adversary",
    "flow",
    "gradient",
    "gradient_times_input",
    "integrated_gradients",
    "jensen_shannon",
    "kendall",
    "leave_one_out",
    "permutation_shift",
    "permute",
    "random_scores",
    "reduce_map",
    "rollout",
    "schemes",
    "select",
    "uniform",
]
