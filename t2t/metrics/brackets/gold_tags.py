"""Gives a tree the part-of-speech tags of the gold tree, so that brackets are scored independently of tags."""

from t2t.problems.treebank.trees import Malformed, Part, Tree, parse_tree, write_tree


def with_gold_tags(hypothesis: str, gold: str) -> str:
    """Returns the hypothesis with the tags of the gold tree; unchanged if the trees do not have the same words.

    Scores leave out punctuation by its tag, so that with a wrong tag the words of two trees no longer match.
    """
    found, wanted = parse_tree(hypothesis), parse_tree(gold)
    if isinstance(found, Malformed) or isinstance(wanted, Malformed) or found.words() != wanted.words():
        return hypothesis
    return write_tree(_retagged(found, [tag for tag, _ in wanted.tagged_words()]))


def _retagged(tree: Tree, tags: list[str]) -> Tree:
    rest = iter(tags)
    open_nodes: list[tuple[str, list[Tree | str]]] = [("", [])]
    for part, text in tree.walk():
        if part is Part.OPEN:
            open_nodes.append((text, []))
        elif part is Part.WORD:
            open_nodes[-1] = (next(rest), [text])
        else:
            label, children = open_nodes.pop()
            open_nodes[-1][1].append(Tree(label, tuple(children)))
    (root,) = open_nodes[0][1]
    assert isinstance(root, Tree), "a walk begins and ends with a node"
    return root
