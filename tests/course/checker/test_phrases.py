"""The catalogue holds what a slip can't say: few mistakes of an exercise's own, and one wording for what recurs."""

import re
from collections import Counter

import pytest
from attnlab_course import check
from attnlab_course.checker import phrases
from attnlab_course.checker.phrases import Phrase, Said
from attnlab_course.checker.slips import slips

MOST = 8  # mistakes that are an exercise's own
ALIKE = 0.6  # two sentences are nearly the same if they share this part of their words
EXERCISES = {name: check.find(name) for name in check.names()}
BOOK = {name: phrase for name, phrase in vars(phrases).items() if isinstance(phrase, Phrase)}


def phrases_of(exercise):
    """The phrases that an exercise uses."""
    said = [*(m.say for m in exercise.mistakes), *exercise.without.values()]
    return [say.phrase for say in said if isinstance(say, Said)]


def own(exercise):
    """The sentences that an exercise has for itself."""
    said = [*(m.say for m in exercise.mistakes), *exercise.without.values()]
    return [say for say in said if not isinstance(say, Said)]


def words(text):
    """The words of a sentence, without numbers and what it refers to."""
    return set(re.findall(r"[^\W\d_]+", re.sub(r"(eqs?\.|section|lesson|\{where\})", "", text.lower())))


def alike(a, b):
    """The part of their words that two sentences share."""
    return len(a & b) / len(a | b)


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_has_few_mistakes_of_its_own(name):
    assert len(own(EXERCISES[name])) <= MOST, "merge some, say them by a phrase, or leave them to slips"


def test_each_phrase_recurs():
    used = Counter(phrase for exercise in EXERCISES.values() for phrase in phrases_of(exercise))
    used[phrases.number_for_infinity] += len(EXERCISES)  # which slips say of all
    assert [name for name, phrase in BOOK.items() if used[phrase] < 2] == []


def test_what_recurs_is_a_phrase():
    rows = [(name, words(say), say) for name, exercise in EXERCISES.items() for say in own(exercise)]
    pairs = [(a, b) for i, a in enumerate(rows) for b in rows[:i] if a[0] != b[0]]
    book = {name: words(phrase.text) for name, phrase in BOOK.items()}
    assert [(a[2], b[2]) for a, b in pairs if alike(a[1], b[1]) >= ALIKE] == []
    assert [(say, name) for _, said, say in rows for name, phrase in book.items() if alike(said, phrase) >= ALIKE] == []


def test_nearly_the_same_is_found():
    first = "You don't divide by the sum of exponentials, so the weights of a row don't add up to 1 (eq. 12.4)."
    assert alike(words(first), words(phrases.undivided("section 6"))) >= ALIKE
    assert alike(words(phrases.unscaled.text), words(phrases.undivided.text)) < ALIKE


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", EXERCISES)
def test_a_number_for_minus_infinity_is_one_mistake_everywhere(name):
    found = [slip for slip in slips(EXERCISES[name].reference) if "-1000000000.0" in slip.new]
    said = [slip.say("eq. 1.1") for slip in found if not slip.how.endswith("where −∞ is meant")]
    assert {say.phrase for say in said} <= {phrases.number_for_infinity}


def test_a_phrase_needs_its_names():
    said = phrases.rescales_one("eq. 4.11", one="l", other="o")
    assert re.fullmatch(r"You rescale l and not o\. .* \(eq\. 4\.11\)\.", said)
    with pytest.raises(KeyError, match="other"):
        phrases.rescales_one("eq. 4.11", one="l")
