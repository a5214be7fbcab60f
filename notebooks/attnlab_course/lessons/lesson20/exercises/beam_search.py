"""Lesson 20, ★★★: beam search, the likeliest continuations, one token at a time."""

from collections.abc import Callable

from attnlab_course.checker.exercise import Case, Cost, Exercise, Function, Mistake, but

import numpy as np

Model = Callable[[tuple[int, ...]], np.ndarray]


def beam_search(model: Model, beams: int, length: int) -> tuple[list[list[int]], np.ndarray]:
    """The ``beams`` likeliest texts of ``length`` tokens that the search finds, best first, with log probabilities.

    ``model(tokens)`` gives the logarithms of the chances (V,) of the token that follows a tuple of tokens.
    """
    found = [(0.0, ())]
    for _ in range(length):
        longer = []
        for score, tokens in found:
            longer += [(score + float(p), (*tokens, token)) for token, p in enumerate(model(tokens))]  # eq. 20.5
        found = sorted(longer, key=lambda one: (-one[0], one[1]))[:beams]
    return [list(tokens) for _, tokens in found], np.array([score for score, _ in found])


class Markov:
    """A tiny model: the chances of a token depend on the one before it."""

    def __init__(self, first: list[float], after: list[list[float]]) -> None:
        self.first, self.after = first, after

    def __call__(self, tokens: tuple[int, ...]) -> np.ndarray:
        """Logarithms of the chances."""
        return np.log(self.after[tokens[-1]] if len(tokens) else self.first)

    def __repr__(self) -> str:
        return f"a model of {len(self.first)} tokens"


class OfAllTokens:
    """A model whose chances depend on the whole text, and not on its last token alone."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, tokens: tuple[int, ...]) -> np.ndarray:
        """Logarithms of the chances."""
        return np.log(np.random.default_rng([1, *map(int, tokens)]).dirichlet(np.ones(self.size)))

    def __repr__(self) -> str:
        return f"a model of {self.size} tokens"


def cases() -> list[Case]:
    """One token and several, one beam and several, a model that punishes greed."""
    greed = Markov([0.6, 0.4], [[0.5, 0.5], [0.95, 0.05]])  # 0 is likelier, and yet 1, 0 is the likeliest pair
    ties = Markov([0.25, 0.5, 0.25], [[0.125, 0.5, 0.375], [0.25, 0.25, 0.5], [0.25, 0.25, 0.5]])
    sure, rare = Markov([0.98, 0.01, 0.01], [[0.5, 0.3, 0.2]] * 3), ([1.0, 1e-300], [[1.0, 1e-300]] * 2)
    return [
        Case("two tokens to choose from, one beam, one token", (greed, 1, 1)),
        Case("one beam, two tokens: greedy", (greed, 1, 2)),
        Case("two beams, two tokens: the likeliest pair begins with the less likely token", (greed, 2, 2)),
        Case("four tokens to choose from, three beams, two tokens", (OfAllTokens(4), 3, 2)),
        Case("three beams, two tokens: 0, 1 and 1, 0 are equally good", (ties, 3, 2)),
        Case("three beams, three tokens, and several texts of two are equally good", (ties, 3, 3)),
        Case("two beams, four tokens: the chances depend on all tokens of a text", (OfAllTokens(4), 2, 4)),
        Case("three beams, two tokens: the three best begin with token 0", (sure, 3, 2)),
        Case("two beams, one token: token 1 is better by 4 · 10⁻⁹", (Markov([0.5 - 1e-9, 0.5 + 1e-9], []), 2, 1)),
        Case("eight beams, three tokens, some of chance 10⁻³⁰⁰, whose products are 0", (Markov(*rare), 8, 3)),
    ]


def calls(answer: Function, library: str) -> float:
    """Calls of the model for 3 beams and 6 tokens, over those of eq. 20.5."""
    model, seen = OfAllTokens(5), []
    answer(lambda tokens: seen.append(1) or model(tokens), 3, 6)
    return len(seen) / (1 + 3 * 5)


SORT = "sorted(longer, key=lambda one: (-one[0], one[1]))[:beams]"

EXERCISE = Exercise(
    lesson="20", stars=3, reference=beam_search, where="eq. 20.5", cases=cases,
    hints=(
        "Start with one text, the empty one, whose score is 0. In each turn, extend every kept text by every token.",
        "The score of a longer text is the sum of the logarithms; keep the `beams` best of *all* longer texts, "
        "whichever text they continue (eq. 20.5).",
        "Sort by score, the largest first; among equal scores, the text that's smaller as a list comes first.",
    ),
    without={
        "score": "You forget the score so far: each turn keeps what the *last* token makes likely (eq. 20.5).",
        "-one[0]": "You keep the worst texts: sort with the largest score first (eq. 20.5).",
    },
    mistakes=(
        Mistake("Each of your beams keeps its own best continuation. Keep the best of *all* continuations; two of them "
                "may come from one beam (eq. 20.5).",
                but(SORT, "sorted((max(longer[i : i + len(model(()))], key=lambda x: x[0]) for i in range(0, "
                    "len(longer), len(model(())))), key=lambda one: (-one[0], one[1]))[:beams]",
                    "found = [(0.0, ())]", "found = sorted(((float(p), (t,)) for t, p in enumerate(model(()))), "
                    "key=lambda one: (-one[0], one[1]))[:beams]", "range(length)", "range(length - 1)")),
        Mistake("You multiply logarithms. They're added, because probabilities are multiplied (eq. 20.5).",
                but("score + float(p)", "score * float(p)", "(0.0, ())", "(-1.0, ())"),
                but("score + float(p)", "-abs(score * float(p))", "(0.0, ())", "(1.0, ())")),
        Mistake("Your search is greedy: it keeps one text in each turn, whatever `beams` says, or tries only the "
                "likeliest token (eq. 20.5).",
                but("[:beams]", "[:1]")),
        Mistake("You divide the scores by the length. Here they're plain sums (eq. 20.5).",
                but("np.array([score for score, _ in found])", "np.array([score / length for score, _ in found])")),
        Mistake("Right values, but you try all texts, so the number of calls grows with a power of the vocabulary. "
                "Keep `beams` texts after each token (eq. 20.5).",
                but("[:beams]", "[: beams * 1000]", "return [", "found = found[:beams]; return [")),
    ),
    costs=(Cost(calls, 1.0, "it calls the model {found:.1f} times as often as a search with three beams has to."),),
)
