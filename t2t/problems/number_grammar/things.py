"""Counted things: number, adjective and noun agree (`one old dog`, `einen alten Hund`, `mit drei alten Hunden`)."""

import random
from typing import NamedTuple

from t2t.problems.number_grammar import english, german
from t2t.problems.number_grammar.german import Case, Gender
from t2t.problems.number_grammar.phrase import Phrase, amount_up_to, any_of, fill


class Noun(NamedTuple):
    """A noun with its plurals and its German gender; none of the weak declension (`der Mensch, den Menschen`)."""

    one: str
    many: str
    gender: Gender
    german_one: str
    german_many: str

    def count(self, number: int, case: Case, article: bool = False) -> Phrase:
        """Returns `two cats`, `zwei Katzen`."""
        return Phrase(
            f"{english.cardinal(number, article)} {english.plural(number, self.one, self.many)}",
            f"{german.count(number, self.gender, case, article)} {self.form(number, case)}",
        )

    def form(self, number: int, case: Case) -> str:
        """Returns the German form after a number."""
        if number == 1:
            return self.german_one
        return german.dative_plural(self.german_many) if case is Case.DAT else self.german_many


_M, _F, _N = Gender.M, Gender.F, Gender.N
NOUNS = (
    Noun("dog", "dogs", _M, "Hund", "Hunde"),
    Noun("tree", "trees", _M, "Baum", "Bäume"),
    Noun("bird", "birds", _M, "Vogel", "Vögel"),
    Noun("apple", "apples", _M, "Apfel", "Äpfel"),
    Noun("table", "tables", _M, "Tisch", "Tische"),
    Noun("chair", "chairs", _M, "Stuhl", "Stühle"),
    Noun("man", "men", _M, "Mann", "Männer"),
    Noun("friend", "friends", _M, "Freund", "Freunde"),
    Noun("fish", "fish", _M, "Fisch", "Fische"),
    Noun("cat", "cats", _F, "Katze", "Katzen"),
    Noun("woman", "women", _F, "Frau", "Frauen"),
    Noun("flower", "flowers", _F, "Blume", "Blumen"),
    Noun("mouse", "mice", _F, "Maus", "Mäuse"),
    Noun("cow", "cows", _F, "Kuh", "Kühe"),
    Noun("street", "streets", _F, "Straße", "Straßen"),
    Noun("bridge", "bridges", _F, "Brücke", "Brücken"),
    Noun("daughter", "daughters", _F, "Tochter", "Töchter"),
    Noun("house", "houses", _N, "Haus", "Häuser"),
    Noun("child", "children", _N, "Kind", "Kinder"),
    Noun("book", "books", _N, "Buch", "Bücher"),
    Noun("car", "cars", _N, "Auto", "Autos"),
    Noun("horse", "horses", _N, "Pferd", "Pferde"),
    Noun("sheep", "sheep", _N, "Schaf", "Schafe"),
    Noun("window", "windows", _N, "Fenster", "Fenster"),
    Noun("egg", "eggs", _N, "Ei", "Eier"),
    Noun("room", "rooms", _N, "Zimmer", "Zimmer"),
)
_ADJECTIVES = (
    ("old", "alt"), ("new", "neu"), ("small", "klein"), ("big", "groß"), ("beautiful", "schön"), ("white", "weiß"),
)  # fmt: skip
_FRAMES = {
    Case.NOM: (("{}", "{}"),),
    Case.ACC: (
        ("there {be} {}", "es gibt {}"),
        ("in the garden there {be} {}", "im Garten gibt es {}"),
        ("I see {}", "ich sehe {}"),
        ("we have {}", "wir haben {}"),
        ("they need {}", "sie brauchen {}"),
        ("she has seen {}", "sie hat {} gesehen"),
        ("he painted {}", "er hat {} gemalt"),
        ("we are looking for {}", "wir suchen {}"),
        ("can you see {}", "kannst du {} sehen"),
        ("for {}", "für {}"),
        ("without {}", "ohne {}"),
    ),
    Case.DAT: (
        ("with {}", "mit {}"),
        ("he is coming with {}", "er kommt mit {}"),
        ("she dreams of {}", "sie träumt von {}"),
        ("we talk about {}", "wir sprechen von {}"),
        ("next to {}", "neben {}"),
    ),
}
_PAIR_FRAMES = (*_FRAMES[Case.ACC][2:5], ("{}", "{}"))


def draw(rng: random.Random) -> Phrase:
    """Returns a number of things, alone or in a sentence."""
    kind = rng.random()
    if kind < 0.2:
        return _pair(rng)
    case = Case.NOM if kind < 0.4 else Case.ACC if kind < 0.75 else Case.DAT
    number = 1 if rng.random() < 0.2 else amount_up_to(rng, 9_999)
    noun = any_of(rng, NOUNS)
    if rng.random() < 0.4:
        things = with_adjective(noun, number, any_of(rng, _ADJECTIVES), case)
    else:
        things = noun.count(number, case, english.takes_article(number) and rng.random() < 0.5)
    frame, frame_german = any_of(rng, _FRAMES[case])
    be = "is" if number == 1 else "are"
    return fill((frame.replace("{be}", be), frame_german), *things)


def with_adjective(noun: Noun, number: int, adjective: tuple[str, str], case: Case) -> Phrase:
    """Returns `one old cat`, `eine alte Katze`; `three old dogs`, in the dative `drei alten Hunden`."""
    ending = german.ending_after_a(noun.gender, case) if number == 1 else german.ending_in_plural(case)
    return Phrase(
        f"{english.cardinal(number)} {adjective[0]} {english.plural(number, noun.one, noun.many)}",
        f"{german.count(number, noun.gender, case)} {adjective[1]}{ending} {noun.form(number, case)}",
    )


def _pair(rng: random.Random) -> Phrase:
    """Two kinds of things; the frames take the accusative, alone the pair is in the nominative."""
    frame = any_of(rng, _PAIR_FRAMES)
    case = Case.NOM if frame == ("{}", "{}") else Case.ACC
    first, second = rng.sample(NOUNS, 2)
    left, right = first.count(amount_up_to(rng, 99), case), second.count(amount_up_to(rng, 99), case)
    return fill(frame, f"{left.english} and {right.english}", f"{left.german} und {right.german}")
