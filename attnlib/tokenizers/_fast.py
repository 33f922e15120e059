"""What `attnlib.tokenizers.merges` does, for many texts and for long words.

Read that module first: here are the same two functions with the same results (a test compares
them), and only the work is arranged differently. Learning keeps its counts up to date instead of
counting again. Encoding a long word keeps a queue of the pairs that can be merged.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from operator import add

from attnlib.tokenizers.merges import Pair

# -- learning ---------------------------------------------------------------------------------
#
# A word is a Python string whose *characters are token ids*, chr(id), and a pair is a string of
# two characters. So `str.split` finds all places of a pair in a word, from left to right, at the
# speed of C.


def learn_merges(
    words: Mapping[tuple[int, ...], int], number: int, first: int = 256
) -> Iterator[Pair]:
    """The merges one by one, as `merges.learn_merges` finds them; arguments as there.

    An index tells in which words a pair occurs, so that a merge touches only those words.
    """
    forms = ["".join(map(chr, word)) for word in words]
    times = list(words.values())
    counts, places = _index_pairs(forms, times)
    queue = [(-count, pair) for pair, count in counts.items()]
    heapify(queue)
    for new in range(first, first + number):
        pair = _most_frequent(queue, counts)
        if pair is None:
            return
        yield ord(pair[0]), ord(pair[1])
        born: set[str] = set()
        for i in places.pop(pair):
            form, occurrences = forms[i], times[i]
            if pair not in form:  # an earlier merge took it apart, or this word stood twice
                continue
            forms[i], lost, made = _merge(form, pair, chr(new))
            for neighbours in lost:
                counts[neighbours] -= occurrences
            for neighbours in made:
                counts[neighbours] += occurrences
                places[neighbours].append(i)
            born.update(made)
        del counts[pair]
        for neighbours in born:
            heappush(queue, (-counts[neighbours], neighbours))


def _index_pairs(
    forms: Sequence[str], times: Sequence[int]
) -> tuple[defaultdict[str, int], defaultdict[str, list[int]]]:
    """How often each pair occurs, and the places of the words in which it does.

    A word that has a pair twice stands twice in the pair's list.

    >>> counts, places = _index_pairs(["abab", "ab"], [1, 10])
    >>> dict(counts), dict(places)
    ({'ab': 12, 'ba': 1}, {'ab': [0, 0, 1], 'ba': [0]})
    """
    counts: defaultdict[str, int] = defaultdict(int)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for i, form in enumerate(forms):
        for pair in map(add, form, form[1:]):
            counts[pair] += times[i]
            places[pair].append(i)
    return counts, places


def _most_frequent(queue: list[tuple[int, str]], counts: Mapping[str, int]) -> str | None:
    """Take the pair with the largest count, then with the smallest ids, off the queue.

    The count of a pair in the queue can only have fallen since, so an outdated entry stands too
    early and never too late. Such an entry goes back with its present count.
    """
    while queue:
        negative, pair = heappop(queue)
        count = counts[pair]
        if count == -negative:
            return pair
        if count > 0:
            heappush(queue, (-count, pair))
    return None


def _merge(form: str, pair: str, new: str) -> tuple[str, list[str], list[str]]:
    """Merge a pair wherever it stands, from left to right.

    Returns:
        the new form; the pairs that are lost around the seams; the pairs that are made there.

    >>> _merge("xaby", "ab", "N")
    ('xNy', ['xa', 'by'], ['xN', 'Ny'])
    """
    left, right = pair[0], pair[1]
    pieces = form.split(pair)
    lost, made = [], []
    for place, (before, after) in enumerate(pairwise(pieces)):
        if before:
            lost.append(before[-1] + left)
            made.append(before[-1] + new)
        elif place > 0:  # the left neighbour has just been merged too
            lost.append(right + left)
            made.append(new + new)
        if after:
            lost.append(right + after[0])
            made.append(new + after[0])
    return new.join(pieces), lost, made


# -- encoding ---------------------------------------------------------------------------------


def apply_merges(word: Sequence[int], joins: Mapping[Pair, int]) -> list[int]:
    """The ids of one pre-token, as `merges.apply_merges` finds them; arguments as there.

    The queue holds (token to be made, place of the pair), so the oldest merge comes first, and of
    equal ones the leftmost. What is merged stays at the left place of the two, and `before` and
    `after` lead past the other. A word of n bytes takes n log n steps, where rounds over the whole
    word would take up to n².
    """
    ids: list[int | None] = list(word)
    end = len(ids)
    before = list(range(-1, end - 1))  # the place of the token to the left, or -1
    after = list(range(1, end + 1))  # the place of the token to the right, or `end`
    queue = [(joins[pair], i) for i, pair in enumerate(pairwise(word)) if pair in joins]
    heapify(queue)

    def token_made_at(left: int, right: int) -> int | None:
        if left < 0 or right == end:
            return None
        first, second = ids[left], ids[right]
        return None if first is None or second is None else joins.get((first, second))

    while queue:
        new, left = heappop(queue)
        right = after[left]
        if token_made_at(left, right) != new:  # one of the two has been merged in the meantime
            continue
        ids[left], ids[right] = new, None
        after[left] = after[right]
        if after[left] < end:
            before[after[left]] = left
        for place, neighbour in ((before[left], left), (left, after[left])):
            possible = token_made_at(place, neighbour)
            if possible is not None:
                heappush(queue, (possible, place))
    return [i for i in ids if i is not None]
