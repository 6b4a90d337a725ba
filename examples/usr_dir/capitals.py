"""A filter of training examples, and a random change of training texts: both are about capital letters.

t2t-trainer --generate_data --filters=my_capitals=0.3 --preprocessors=my_random_case=0.1 ...
"""

from t2t import TextPreprocessor, register_filter, register_preprocessor


@register_filter  # the name is the function's
def my_capitals(texts, most):
    """Keeps examples of texts with at most this share of capital letters."""
    return all(sum(map(str.isupper, text)) <= most * len(text) for text in texts)


@register_preprocessor  # the name is the class's in snake case: my_random_case
class MyRandomCase(TextPreprocessor):
    """Writes words of the inputs in capitals, each with a probability of the rate."""

    def change(self, text, rng):
        """Returns the text as it is read in this epoch; all randomness is from `rng`."""
        return " ".join(word.upper() if rng.random() < self.rate else word for word in text.split(" "))
