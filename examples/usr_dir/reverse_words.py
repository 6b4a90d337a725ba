"""Write the words of a phrase backwards.

    inputs   small red fox sees old dog
    targets  dog old sees fox red small

Made up by the generator below; no licence needed.
"""

from t2t import TRAIN, Text2Text, register_problem


@register_problem  # the name is the class's in snake case: my_reverse_words
class MyReverseWords(Text2Text):
    """Phrases of one to eight words, read backwards."""

    vocabulary = ("small", "old", "red", "quick", "fox", "dog", "cat", "bird", "sees", "hears", "follows", "likes")
    metrics = ("accuracy_per_sequence", "accuracy")

    def generate_samples(self, split, context):
        """Yields 5,000 phrases for training and 200 for evaluation."""
        for _ in range(5000 if split == TRAIN else 200):
            words = context.rng.choices(self.vocabulary, k=context.rng.randint(1, 8))
            yield {"inputs": " ".join(words), "targets": " ".join(reversed(words))}
