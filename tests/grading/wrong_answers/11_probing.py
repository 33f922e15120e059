"""What students answer in the exercises of chapter 11: wrong, with the message due, and right."""

from bank import changed

TABLE = """
from collections import Counter

def table_of_words(words, tags, new):
    counts = {}
    for word, tag in zip(words, tags):
        counts.setdefault(word.lower(), []).append(tag)
    default = Counter(tags).most_common(1)[0][0]
    answers = []
    for word in new:
        own = counts.get(word.lower())
        answers.append(max(own, key=own.count) if own else default)
    return answers
"""

CONTROL = """
def control_labels(types, tags, u):
    shares = tags.bincount().cumsum(0) / len(tags)
    labels = (shares[:, None] <= u).sum(0)
    return labels[types]
"""

SELECTIVITY = """
def selectivity(right, control, types, train):
    known = types[train]
    seen = torch.isin(types, known) & ~train
    task = right[seen].float().mean(0)
    memory = control[:, seen].float().mean(1)
    return task - memory.mean(0)
"""

CODE = """
import math

def code_length(logits, labels, ends):
    first = ends[0] * math.log2(logits.shape[-1])
    later = 0.0
    for i in range(1, len(ends)):
        a, b = ends[i - 1], ends[i]
        log_p = logits[i - 1, a:b].log_softmax(-1)
        later -= log_p[torch.arange(b - a), labels[a:b]].sum().item()
    return first + later / math.log(2)
"""

GIVEN = """
import math

def code_length(logits, labels, ends):
    length = 0.0
    for probe, begin, end in zip(logits, [0, *ends], ends):
        known = probe[begin:end].log_softmax(-1)
        length -= known.gather(-1, labels[begin:end, None]).sum().item()
    return length
"""

WITHOUT = """
def without_directions(x, V, middle):
    Q = torch.linalg.qr(V.mT).Q
    y = x - middle
    part = y @ Q @ Q.mT
    return x - part
"""

ROUGH = """
def without_directions(x, V, middle):
    return x - (x - middle) @ torch.linalg.pinv(V, rtol=0.1) @ V
"""

STRAIGHT = """
def without_directions(x, V, middle):
    basis = []
    for v in V:
        for e in basis:
            v = v - (v @ e) * e
        basis.append(v / v.norm())
    for e in torch.stack(basis):
        x = x - ((x - middle) * e).sum(-1, keepdim=True) * e
    return x
"""
AT_ONCE = (
    """    for e in torch.stack(basis):
        x = x - ((x - middle) * e).sum(-1, keepdim=True) * e
""",
    """    Q = torch.stack(basis).mT
    x = x - (x - middle) @ Q @ Q.mT
""",
)

WRONG: dict[str, list[tuple[str, str]]] = {
    "table_of_words": [
        (
            changed(TABLE, "(word.lower(), [])", "(word, [])", "get(word.lower())", "get(word)"),
            "capital letters count in your table",
        ),
        (changed(TABLE, "get(word.lower())", "get(word)"), "the new words keep their capital"),
        (changed(TABLE, "(word.lower(), [])", "(word, [])"), "the training words keep their"),
        (
            TABLE.replace("word.lower()", "(word[0].lower() + word[1:])"),
            "only the first letter is made small",
        ),
        (
            changed(TABLE, "get(word.lower())", "get(word[0].lower() + word[1:])"),
            "only the first letter of the new words",
        ),
        (
            changed(TABLE, "(word.lower(), [])", "(word[0].lower() + word[1:], [])"),
            "only the first letter of the training words",
        ),
        (  # what it answers depends on the order of a set
            changed(TABLE, "Counter(tags).most_common(1)[0][0]", "max(set(tags), key=tags.count)"),
            "table_of_words(",
        ),
        (changed(TABLE, "max(own,", "max(set(own),"), "table_of_words("),
        (
            changed(TABLE, "Counter(tags)", "Counter([*dict.fromkeys(tags)][::-1] + tags)"),
            "of defaults that are equally common, yours is the one that was met last of all",
        ),
        (
            """
def table_of_words(words, tags, new):
    counts = {}
    for word, tag in zip(words, tags):
        counts.setdefault(word.lower(), []).append(tag)
    best = {word: max(own, key=own.count) for word, own in counts.items()}
    told = [best[word.lower()] for word in words]
    return [best.get(word.lower(), max(told, key=told.count)) for word in new]
""",
            "the commonest of your table's own answers",
        ),
        (
            """
def table_of_words(words, tags, new):
    known = {word.lower(): tag for word, tag in zip(words, tags)}
    default = max(tags, key=tags.count)
    return [known.get(word.lower(), default) for word in new]
""",
            "the tag that it had last",
        ),
        (
            """
def table_of_words(words, tags, new):
    lower = [word.lower() for word in words]
    default = max(tags, key=tags.count)
    return [tags[lower.index(w.lower())] if w.lower() in lower else default for w in new]
""",
            "the tag that it had first",
        ),
        (
            changed(TABLE, "max(own, key=own.count)", "max(own[::-1], key=own.count)"),
            "yours is the one that comes last",
        ),
        (
            changed(
                TABLE, "max(own, key=own.count)", "max([*dict.fromkeys(own)][::-1], key=own.count)"
            ),
            "yours is the one that was met last of all, as with >= in place of >: the one",
        ),
        (
            """
def table_of_words(words, tags, new):
    def best(counts):
        found, most = None, 0
        for tag, count in counts.items():
            if count >= most:
                found, most = tag, count
        return found

    counts, every = {}, {}
    for word, tag in zip(words, tags):
        own = counts.setdefault(word.lower(), {})
        own[tag] = own.get(tag, 0) + 1
        every[tag] = every.get(tag, 0) + 1
    return [best(counts.get(word.lower(), every)) for word in new]
""",
            "met last of all, as with >= in place of >, for words and for the default",
        ),
        (  # as in the chapter
            """
def table_of_words(words, tags, new):
    types, kinds = list(dict.fromkeys(map(str.lower, words))), list(dict.fromkeys(tags))
    counts = torch.zeros(len(types), len(kinds))
    for word, tag in zip(words, tags):
        counts[types.index(word.lower()), kinds.index(tag)] += 1
    default = kinds[int(counts.sum(0).argmax())]
    best = {word: kinds[k] for word, k in zip(types, counts.argmax(1).tolist())}
    return [best.get(word.lower(), default) for word in new]
""",
            "yours is the one that comes first in `tags`",
        ),
        (
            changed(TABLE, "own, key=own.count", "set(own), key=lambda t: (own.count(t), t)"),
            "expected",
        ),
        (changed(TABLE, "answers = []", "answers = [new[0]][1:]"), "raised indexerror"),
        (
            changed(TABLE, "max(own, key=own.count)", "max(sorted(own), key=own.count)"),
            "yours is the first one of the alphabet: the one that",
        ),
        (
            changed(
                TABLE,
                "max(own, key=own.count)",
                "max(sorted(own), key=own.count)",
                "Counter(tags)",
                "Counter(sorted(tags))",
            ),
            "for words and for the default: the one",
        ),
        (
            changed(
                TABLE,
                "max(own, key=own.count)",
                "max(own[::-1], key=own.count)",
                "Counter(tags)",
                "Counter(tags[::-1])",
            ),
            "the one that comes last, for words and for the default",
        ),
        (
            changed(TABLE, "Counter(tags)", "Counter(sorted(tags))"),
            "of defaults that are equally common, yours is the first one of the alphabet",
        ),
        (
            changed(TABLE, "Counter(tags)", "Counter(tags[::-1])"),
            "of defaults that are equally common, yours is the one that comes last",
        ),
        (changed(TABLE, "Counter(tags).most_common(1)[0][0]", '"NOUN"'), "your default is noun"),
        (
            changed(TABLE, "Counter(tags).most_common(1)[0][0]", "tags[0]"),
            "your default is the first tag of all",
        ),
        (
            """
def table_of_words(words, tags, new):
    own = {}
    for word, tag in zip(words, tags):
        own.setdefault(word.lower(), []).append(tag)
    best = {word: max(tags, key=tags.count) for word, tags in own.items()}
    of_types = list(best.values())
    default = max(of_types, key=of_types.count)
    return [best.get(word.lower(), default) for word in new]
""",
            "your default is the tag of most types",
        ),
        (
            """
def table_of_words(words, tags, new):
    pairs = list(dict.fromkeys(zip([word.lower() for word in words], tags)))
    kinds = [tag for _, tag in pairs]
    default = max(kinds, key=kinds.count)
    first = {}
    for word, tag in pairs:
        first.setdefault(word, tag)
    return [first.get(word.lower(), default) for word in new]
""",
            "every pair of a word and a tag counts once",
        ),
        (
            """
from collections import Counter

def table_of_words(words, tags, new):
    default, answers = Counter(tags).most_common(1)[0][0], []
    for word in new:
        own = [tag for w, tag in zip(words, tags) if w.lower() == word.lower()]
        best = Counter(own).most_common(2)
        clear = len(best) == 1 or (len(best) == 2 and best[0][1] > best[1][1])
        answers.append(best[0][0] if clear else default)
    return answers
""",
            "two equally common tags gets the default",
        ),
        (
            "def table_of_words(words, tags, new):\n"
            "    return [max(tags, key=tags.count) for _ in new]",
            "every word gets the default",
        ),
        (changed(TABLE, "for word in new", "for word in words"), "the tags of the training words"),
        (changed(TABLE, "in new", "in dict.fromkeys(new)"), "that occurs twice has one answer"),
        (
            changed(
                TABLE,
                "answers.append(max(own, key=own.count) if own else default)",
                "answers += [max(own, key=own.count)] if own else []",
            ),
            "words that were never met have no answer",
        ),
        (changed(TABLE, "counts.get(word.lower())", "counts[word.lower()]"), "raised keyerror"),
        (changed(TABLE, "return answers", "return dict(zip(new, answers))"), "dict"),
    ],
    "control_labels": [
        (
            changed(
                CONTROL,
                "shares = tags.bincount().cumsum(0) / len(tags)",
                "shares = torch.arange(1, int(tags.max()) + 2) / (tags.max() + 1)",
            ),
            "every label is equally likely",
        ),
        (
            """
def control_labels(types, tags, u):
    met = tags.unique()
    return met[(u * len(met)).long()][types]
""",
            "every label that occurs is equally likely",
        ),
        (changed(CONTROL, "<=", "<"), "it must be larger"),
        (
            changed(CONTROL, "(shares[:, None] <= u).sum(0)", "torch.searchsorted(shares, u)"),
            "it must be larger",
        ),
        (
            """
def control_labels(types, tags, u):
    counts = tags.bincount()
    order = counts.argsort(descending=True, stable=True)
    shares = counts[order].cumsum(0) / len(tags)
    return order[(shares[:, None] <= u).sum(0)][types]
""",
            "your labels stand in the order of their frequency",
        ),
        (
            """
def control_labels(types, tags, u):
    first = {}
    for kind, tag in zip(types.tolist(), tags.tolist()):
        first.setdefault(kind, tag)
    of_types = torch.tensor(list(first.values()))
    shares = of_types.bincount().cumsum(0) / len(of_types)
    return (shares[:, None] <= u).sum(0)[types]
""",
            "every type counts once in your shares",
        ),
        (
            changed(CONTROL, "labels[types]", "labels[torch.arange(len(types))]"),
            "every word draws for itself",
        ),
        (
            """
def control_labels(types, tags, u):
    shares, drawn, labels = tags.bincount().cumsum(0) / len(tags), {}, []
    for kind in types.tolist():
        if kind not in drawn:
            drawn[kind] = int((shares <= u[len(drawn)]).sum())
        labels.append(drawn[kind])
    return torch.tensor(labels)
""",
            "in the order in which they appear",
        ),
        (
            changed(CONTROL, "labels[types]", "labels[types.unique(return_inverse=True)[1]]"),
            "you number the types anew",
        ),
        (
            changed(
                CONTROL, "tags.bincount().cumsum(0)", "tags.unique(return_counts=True)[1].cumsum(0)"
            ),
            "you number the tags anew",
        ),
        (changed(CONTROL, "labels[types]", "labels"), "this is one label for every type"),
        (
            "def control_labels(types, tags, u):\n"
            "    return torch.stack([tags[types == kind].mode().values for kind in types])",
            "the commonest true tag of each type",
        ),
        (
            changed(
                CONTROL,
                "bincount().cumsum(0)",
                "bincount().flip(0).cumsum(0)",
                "(shares[:, None] <= u).sum(0)",
                "tags.max() - (shares[:, None] <= u).sum(0)",
            ),
            "your shares begin at the largest label",
        ),
        (changed(CONTROL, ".cumsum(0)", ""), "the share of each label alone"),
        (changed(CONTROL, "/ len(tags)", "/ len(u)"), "you divide by the number of types"),
        (changed(CONTROL, "labels[types]", "labels[types].float()"), "expected int64"),
        (changed(CONTROL, "labels[types]", "labels[types].tolist()"), "list"),
    ],
    "selectivity": [
        (
            changed(SELECTIVITY, "torch.isin(types, known) & ~train", "~train"),
            "you count all test words",
        ),
        (changed(SELECTIVITY, "right[seen]", "right[~train]"), "both are scored on the same words"),
        (changed(SELECTIVITY, "control[:, seen]", "control[:, ~train]"), "the control on all test"),
        (changed(SELECTIVITY, "control[:, seen]", "control"), "and the control on all words"),
        (
            changed(SELECTIVITY, "task - memory.mean(0)", "(task - memory.mean(0)).abs()"),
            "the sign is lost",
        ),
        (
            changed(SELECTIVITY, "task - memory.mean(0)", "(task - memory.mean(0)).clamp(min=0)"),
            "what is below 0 is cut off",
        ),
        (changed(SELECTIVITY, " & ~train", ""), "you count the training words as well"),
        (
            changed(SELECTIVITY, "right[seen]", "right", "control[:, seen]", "control"),
            "you count all words there are",
        ),
        (
            changed(SELECTIVITY, "torch.isin(types, known) & ~train", "train"),
            "the words on which the probe was trained",
        ),
        (
            changed(SELECTIVITY, "torch.isin(types, known) & ~train", "~torch.isin(types, known)"),
            "whose type is not in training",
        ),
        (
            changed(SELECTIVITY, "task - memory.mean(0)", "memory.mean(0) - task"),
            "the sign is the other way round",
        ),
        (changed(SELECTIVITY, "memory.mean(0)", "memory[0]"), "you use the first draw only"),
        (changed(SELECTIVITY, "memory.mean(0)", "memory.sum(0)"), "you add the draws up"),
        (changed(SELECTIVITY, "memory.mean(0)", "memory.amax(0)"), "you take the best draw"),
        (changed(SELECTIVITY, "memory.mean(0)", "memory"), "you keep a row for every draw"),
        (
            """
def selectivity(right, control, types, train):
    found = []
    for kind in types[train].unique():
        places = (types == kind) & ~train
        if places.any():
            task = right[places].float().mean(0)
            found.append(task - control[:, places].float().mean((0, 1)))
    return torch.stack(found).mean(0)
""",
            "you take the mean of the types' means",
        ),
        (
            """
def selectivity(right, control, types, train):
    seen = torch.isin(types, types[train]) & ~train
    return (right & ~control.any(0))[seen].float().mean(0)
""",
            "and no draw of the control",
        ),
        (
            changed(SELECTIVITY, "task - memory.mean(0)", "task"),
            "this is the accuracy on the task alone",
        ),
        (
            changed(
                SELECTIVITY,
                "task - memory.mean(0)",
                "(task - memory.mean(0)).mean().expand(right.shape[1])",
            ),
            "this is one number for all probes",
        ),
        (
            changed(SELECTIVITY, "task - memory", "task / memory"),
            "you divide by the control's accuracy",
        ),
        (changed(SELECTIVITY, "right[seen].float()", "right[seen]"), "raised runtimeerror"),
        (
            changed(SELECTIVITY, "task - memory.mean(0)", "(task - memory.mean(0)).double()"),
            "expected float32",
        ),
        (changed(SELECTIVITY, "~train", "~torch.isin(types, known)"), "nan"),
    ],
    "code_length": [
        (
            changed(CODE, "math.log2(logits", "math.log(logits", "later / math.log(2)", "later"),
            "this is the length in nats",
        ),
        (changed(CODE, "later / math.log(2)", "later"), "and the others are in nats"),
        (changed(CODE, "math.log2(logits", "math.log(logits"), "your first block is in nats"),
        (GIVEN, "this is still the given function"),
        (changed(GIVEN, ".item()", ".item() / math.log(2)"), "the given function in bits"),
        (
            """
import math

def code_length(logits, labels, ends):
    length, last = 0.0, len(logits) - 1
    if last < 0:
        raise ValueError("no probe")
    for i, (begin, end) in enumerate(zip([0, *ends], ends)):
        known = logits[min(i, last), begin:end].log_softmax(-1)
        length -= known.gather(-1, labels[begin:end, None]).sum().item()
    return length / math.log(2)
""",
            "a block is priced by the probe that was trained on it, too",
        ),
        (
            changed(CODE, "logits[i - 1, a:b]", "logits[min(i, len(logits) - 1), a:b]"),
            "the first block is right, and each later one",
        ),
        (
            changed(CODE, "logits[i - 1, a:b]", "logits[-1, a:b]"),
            "the last probe prices all later blocks",
        ),
        (
            """
import math

def code_length(logits, labels, ends):
    log_p = logits[-1].log_softmax(-1)
    return -log_p[torch.arange(len(labels)), labels].sum().item() / math.log(2)
""",
            "the last probe prices the whole message",
        ),
        (
            changed(CODE, "logits[i - 1, a:b]", "logits[0, a:b]"),
            "the first probe prices all later blocks",
        ),
        (changed(CODE, "return first +", "return"), "the first block is missing"),
        (
            """
import math

def code_length(logits, labels, ends):
    if len(ends) == 1:
        raise ValueError("no probe")
    bits = 0.0
    for i, (a, b) in enumerate(zip([0, *ends], ends)):
        log_p = logits[max(i - 1, 0), a:b].log_softmax(-1)
        bits -= log_p[torch.arange(b - a), labels[a:b]].sum().item() / math.log(2)
    return bits
""",
            "the first block is priced by probe 0",
        ),
        (
            changed(CODE, "a, b = ends[i - 1], ends[i]", "a, b = 0, ends[i]"),
            "from the first one to",
        ),
        (
            changed(
                CODE,
                "a, b = ends[i - 1], ends[i]",
                "a = sum(ends[:i])\n        b = min(a + ends[i], len(labels))",
                "torch.arange(b - a)",
                "torch.arange(max(b - a, 0))",
            ),
            "you take `ends` for the lengths",
        ),
        (
            changed(CODE, "log_softmax(-1)", "softmax(-1).add(1e-9).log()"),
            "1e-09 is added to the probabilities",
        ),
        (
            changed(CODE, "log_softmax(-1)", "softmax(-1).add(1e-12).log()"),
            "1e-12 is added to the probabilities",
        ),
        (changed(CODE, "/ math.log(2)", "* math.log(2)"), "the others are multiplied by ln 2"),
        (
            changed(
                CODE, "first + later / math.log(2)", "(first * math.log(2) + later) * math.log(2)"
            ),
            "you multiply the length by ln 2",
        ),
        (
            changed(
                CODE, "logits[i - 1, a:b].log_softmax(-1)", "logits[i - 1].log_softmax(0)[a:b]"
            ),
            "your softmax runs along all labels of the text",
        ),
        (
            changed(
                CODE,
                "logits[i - 1, a:b]",
                "logits[i - 1, a:]",
                "torch.arange(b - a), labels[a:b]",
                "torch.arange(len(labels) - a), labels[a:]",
            ),
            "each probe prices all labels from its block to the end",
        ),
        (
            changed(CODE, "return first + later / math.log(2)", "return later"),
            "the probes are right; the first block and the unit",
        ),
        (changed(GIVEN, "0.0", "ends[0] * math.log2(logits.shape[-1])"), "the unit and the probes"),
        (
            changed(GIVEN, "0.0", "ends[0] * math.log(logits.shape[-1])"),
            "added the first block, in",
        ),
        (
            changed(
                GIVEN,
                "0.0",
                "ends[0] * math.log2(logits.shape[-1])",
                ".item()",
                ".item() / math.log(2)",
            ),
            "and so is the unit, but the probes",
        ),
        (changed(CODE, "ends[0] * ", ""), "costs log₂ k as a whole"),
        (
            changed(CODE, "logits.shape[-1]", "len(labels.unique())"),
            "you count the labels that occur",
        ),
        (changed(CODE, "logits.shape[-1]", "int(labels.max()) + 1"), "you take the largest label"),
        (
            changed(CODE, "ends[0] * math.log2(logits.shape[-1])", "float(ends[0])"),
            "costs one bit in your code",
        ),
        (changed(CODE, "range(1, len(ends))", "range(1, len(ends) - 1)"), "the last block is miss"),
        (changed(CODE, ".log_softmax(-1)", ""), "the softmax is missing"),
        (changed(CODE, "ends[0] * ", "", ".sum()", ".mean()"), "you take the mean of each block"),
        (changed(CODE, ".sum()", ".mean()"), "you take the mean of each later block"),
        (
            changed(
                CODE,
                "return first + later / math.log(2)",
                "return (first + later / math.log(2)) / len(labels)",
            ),
            "this is the length for one label",
        ),
        (
            changed(
                CODE,
                "return first + later / math.log(2)",
                "return (first + later / math.log(2)) "
                "/ (len(labels) * math.log2(logits.shape[-1]))",
            ),
            "a share of the uniform code",
        ),
        (
            changed(
                CODE,
                "return first + later / math.log(2)",
                "return len(labels) * math.log2(logits.shape[-1]) / (first + later / math.log(2))",
            ),
            "how often the uniform code is longer",
        ),
        (
            changed(
                CODE, "return first + later / math.log(2)", "return -first - later / math.log(2)"
            ),
            "the sign is the other way round",
        ),
        (changed(CODE, "log_softmax(-1)", "softmax(-1).log()"), "the logarithm comes after the"),
        (changed(CODE, "log_softmax(-1)", "log_softmax(0)"), "runs along the labels of a block"),
        (changed(CODE, ".item()", ""), ".item() makes a number"),
    ],
    "without_directions": [
        (changed(WITHOUT, "y = x - middle", "y = x"), "your coordinates end at 0"),
        (
            "def without_directions(x, V, middle):\n    return x - (x - middle) @ V.mT @ V",
            "your directions are not of length 1",
        ),
        (
            """
def without_directions(x, V, middle):
    return x - (x - middle) @ V.mT @ (V / V.norm(dim=-1, keepdim=True))
""",
            "you divide by the length once",
        ),
        (
            """
def without_directions(x, V, middle):
    for v in V:
        v = v / v.norm()
        x = x - ((x - middle) @ v)[..., None] * v
    return x
""",
            "you remove one direction after the other",
        ),
        (
            """
def without_directions(x, V, middle):
    for v in V:
        x = x - ((x - middle) @ v)[..., None] * v
    return x
""",
            "after the other, and they are not of length 1",
        ),
        (changed(STRAIGHT, "v / v.norm()", "v"), "but as if they were of length 1"),
        (
            """
def without_directions(x, V, middle):
    V = V / V.norm(dim=-1, keepdim=True)
    return x - (x - middle) @ V.mT @ V
""",
            "what they share is removed twice",
        ),
        (changed(STRAIGHT, "basis:", "basis[:1]:"), "at right angles to the first one only: all"),
        (changed(STRAIGHT, "basis:", "basis[-1:]:"), "the one just before it only: all"),
        (changed(STRAIGHT, "basis:", "basis[:1]:", *AT_ONCE), "the first one only, so what"),
        (changed(STRAIGHT, "basis:", "basis[-1:]:", *AT_ONCE), "the one just before it only, so"),
        (changed(WITHOUT, "qr(V.mT)", "qr(V[:1].mT)"), "only the first direction is gone"),
        (changed(WITHOUT, "qr(V.mT)", "qr(V[-1:].mT)"), "only the last direction is gone"),
        (changed(WITHOUT, "x - part", "part"), "this is what is removed"),
        (changed(WITHOUT, "x - part", "middle + part"), "only the directions are left"),
        (
            changed(WITHOUT, "y = x - middle", "y = x", "x - part", "x - part + middle"),
            "you add the whole of `middle`",
        ),
        (changed(WITHOUT, "x - part", "y - part"), "`middle` is subtracted and does not come back"),
        (
            changed(WITHOUT, "x - middle", "x - x.reshape(-1, x.shape[-1]).mean(0)"),
            "the mean of the states that you were given",
        ),
        (
            "def without_directions(x, V, middle):\n    return middle.expand_as(x).clone()",
            "you set every coordinate to that of `middle`",
        ),
        (changed(WITHOUT, "x - part", "x - 2 * part"), "the coordinates have changed sides"),
        (
            changed(WITHOUT, "qr(V.mT)", "qr(V.mean(0, keepdim=True).mT)"),
            "the mean of the directions is gone",
        ),
        (changed(WITHOUT, "x - part", "x + part"), "the sign is wrong"),
        (ROUGH, "two directions that are nearly parallel count as one"),
        (changed(ROUGH, "0.1", "1e-2"), "without_directions("),
        (changed(WITHOUT, "qr(V.mT)", "qr(V.double().mT)"), "dtype"),
        (changed(WITHOUT, "x - part", "(x - part).float()"), "expected float64"),
        (
            """
def without_directions(x, V, middle):
    Q = torch.linalg.qr(V.mT).Q
    x -= (x - middle) @ Q @ Q.mT
    return x
""",
            "it changes its argument x in place",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "table_of_words": [
        """
import numpy as np

def table_of_words(words, tags, new):
    types = np.array([word.lower() for word in words])
    kinds = list(dict.fromkeys(tags))
    numbers = np.array([kinds.index(tag) for tag in tags])
    answers = []
    for word in new:
        own = numbers[types == word.lower()]
        own = own if len(own) else numbers
        values, first, times = np.unique(own, return_index=True, return_counts=True)
        best = min(range(len(values)), key=lambda i: (-times[i], first[i]))
        answers.append(kinds[values[best]])
    return answers
""",
        """
class Table(dict):
    def __init__(self, words, tags):
        for word, tag in zip(map(str.casefold, words), tags):
            row = self.setdefault(word, {})
            row[tag] = row.get(tag, 0) + 1
        self.grad = {}
        for tag in tags:
            self.grad[tag] = self.grad.get(tag, 0) + 1

    def __missing__(self, word):
        return self.grad

def table_of_words(words, tags, new):
    table = Table(words, tags)
    rows = (table[word.casefold()] for word in new)
    return [max(row, key=row.get) for row in rows]
""",
    ],
    "control_labels": [
        """
def control_labels(types, tags, u):
    ordered = tags.sort().values
    place = (u.double() * len(tags) + 1e-9).floor().long()
    return ordered[place][types]
""",
        """
from bisect import bisect_right
from itertools import accumulate

def control_labels(types, tags, u):
    N = tags.numel()
    counts = [tags.tolist().count(k) for k in range(int(tags.max()) + 1)]
    hessian = [total / N for total in accumulate(counts)]
    return types.clone().apply_(lambda kind: bisect_right(hessian, float(u[kind])))
""",
    ],
    "selectivity": [
        """
def selectivity(right, control, types, train):
    met = set(types[train].tolist())
    total, count = torch.zeros(right.shape[1]), 0
    for n, kind in enumerate(types.tolist()):
        if kind in met and not train[n]:
            total += right[n].float() - control[:, n].float().mean(dim=0)
            count += 1
    return total / count
""",
        """
import numpy as np

def selectivity(right, control, types, train):
    known = np.isin(types.numpy(), types[train].numpy())
    where = np.flatnonzero(known & ~train.numpy())
    task = np.take(right.numpy(), where, axis=0).mean(axis=0)
    memory = np.take(control.numpy(), where, axis=1).mean(axis=1).mean(axis=0)
    return torch.from_numpy((task - memory).astype(np.float32))
""",
    ],
    "code_length": [
        """
import numpy as np

def code_length(logits, labels, ends):
    z = logits.double().numpy() / np.log(2)
    blank = np.zeros((1, *z.shape[1:]))
    z = np.concatenate([blank, z])
    block = np.searchsorted(ends, np.arange(ends[-1]), side="right")
    rows = z[block, np.arange(ends[-1])]
    normal = np.logaddexp2.reduce(rows, axis=-1)
    return float((normal - rows[np.arange(len(rows)), labels.numpy()]).sum())
""",
        """
class Friend:
    def __init__(self, K):
        self.grad = torch.zeros(1, K)

    def price(self, labels):
        table = self.grad.double().expand(len(labels), -1)
        own = table.gather(1, labels.unsqueeze(1)).squeeze(1)
        return (table.logsumexp(1) - own).sum().div(torch.tensor(2.0).double().log()).item()

def code_length(logits, labels, ends):
    friend, begin, length = Friend(logits.shape[-1]), 0, 0.0
    for number, end in enumerate(ends):
        length += friend.price(labels[begin:end])
        if end < len(labels):
            friend.grad = logits[number, end : ends[number + 1]]
        begin = end
    return length
""",
    ],
    "without_directions": [
        STRAIGHT,
        """
import numpy as np

def without_directions(x, V, middle):
    rows = V.double().numpy()
    y = x.double().numpy() - middle.double().numpy()
    _, _, turned = np.linalg.svd(rows, full_matrices=True)
    rest = turned[len(rows) :]
    return torch.from_numpy(middle.double().numpy() + y @ rest.T @ rest).to(x.dtype)
""",
    ],
}

EQUIVALENT: dict[str, dict[str, str]] = {
    "table_of_words": {
        "counts.setdefault(word.lower(), Counter())[tag] += 2": "twice the count ranks alike",
        "return [counts.get(word.lower(), default).most_common()[0][0] for word in new]": (
            "the first of all is the first"
        ),
        "return [counts.get(word.lower(), default).most_common(1)[-1][0] for word in new]": (
            "the first of one is its last"
        ),
        "return [counts.get(word.lower(), default).most_common(2)[0][0] for word in new]": (
            "the first of two is the first"
        ),
    },
    "control_labels": {
        "shares = tags.bincount().cumsum(-1) / len(tags)": "the only axis",
        "shares = tags.bincount().cumsum(0) / len(types)": "one tag for every word",
    },
    "selectivity": {"seen = torch.isin(types, types[train]) & ~train": "the same two conditions"},
    "code_length": {
        "for probe, begin, end in zip(logits, ends[:], ends[1:]):": "zip stops at the shortest",
        "log_p = probe[begin:end].log_softmax(1)": "the last of two axes",
        "log_p = probe[begin:].log_softmax(-1)": "gather takes as many rows as there are labels",
        "bits -= log_p.gather(1, labels[begin:end, None]).sum().item() / math.log(2)": (
            "the last of two axes"
        ),
    },
    "without_directions": {
        "Q = torch.linalg.qr(V.T).Q": "V has two axes",
        "return x - (x - middle) @ Q @ Q.T": "Q has two axes",
    },
}
