from t2t.problems.treebank.linearisation import words_of
from t2t.text.white_space import single_spaced, split_words


def test_words_have_one_space_between_them():
    assert single_spaced(" the  dog\truns\u00a0on \r\n.\v\f") == "the dog runs\u00a0on ."
    assert single_spaced(" \t") == single_spaced("") == ""
    assert split_words(" a\n b") == words_of(" a\n b") == ["a", "b"]
