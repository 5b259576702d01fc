"""Candidate trees: every token of every candidate is reached, shared beginnings stand once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlm_consistency.scoring.trees import attach, build_tree

# Few ids, the padding id 0 among them, so that much is shared and repeated.
CANDIDATES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=8)
PREFIXES = st.lists(st.integers(0, 9), max_size=5)
START = 0


def ancestors(tokens, positions) -> list[list[int]]:
    """Each node's chain from the root, itself last, told from depths in depth-first order."""
    chains: list[list[int]] = []
    for node, depth in enumerate(positions):
        parent = next((n for n in reversed(range(node)) if positions[n] == depth - 1), None)
        # In depth-first order the parent is the last node before that lies one less deep.
        assert (parent is None) == (node == 0)
        chains.append([*(chains[parent] if parent is not None else []), node])
    assert len(chains) == len(tokens)
    return chains


def test_the_drawing_of_the_module():
    the, cat, dog, a, bird = 11, 12, 13, 14, 15
    tree = build_tree([[the, cat], [the, dog], [a, bird]])
    assert tree.tokens.tolist() == [the, a], "last tokens are targets and never inputs"
    assert tree.depths.tolist() == [1, 1]
    assert tree.ends.tolist() == [2, 3]
    assert tree.read.tolist() == [0, 1, 2]
    pairs = list(zip(tree.read[tree.pair_read].tolist(), tree.pair_target.tolist(), strict=True))
    assert pairs == [(0, the), (1, cat), (1, dog), (0, a), (2, bird)]
    assert [p.tolist() for p in tree.candidate_pairs] == [[0, 1], [0, 2], [3, 4]]

    decoder = attach(tree, np.asarray([99, 7]), START)
    #                                start x0 r   the a
    assert decoder.tokens.tolist() == [START, 99, 7, the, a]
    assert decoder.positions.tolist() == [0, 1, 2, 3, 3]
    assert decoder.ends.tolist() == [5, 5, 5, 4, 5]
    assert decoder.read.tolist() == [2, 3, 4]


def test_one_token_candidates_need_no_branch():
    tree = build_tree([[5], [6], [7]])
    assert tree.size == 0
    assert tree.read.tolist() == [0]
    assert tree.pair_target.tolist() == [5, 6, 7]


def test_a_repeated_candidate_is_computed_once_and_scored_twice():
    tree = build_tree([[5, 6], [5, 6], [5]])
    assert tree.size == 1
    assert tree.pair_target.tolist() == [5, 6]
    assert [p.tolist() for p in tree.candidate_pairs] == [[0, 1], [0, 1], [0]]


def test_a_candidate_that_begins_another_shares_its_nodes():
    tree = build_tree([[5, 6, 7], [5, 6]])
    assert tree.size == 2
    assert tree.candidate_pairs[1].tolist() == tree.candidate_pairs[0][:2].tolist()


def test_the_padding_id_inside_a_candidate_is_a_token_like_any_other():
    tree = build_tree([[0, 0, 4], [0, 4]])
    assert tree.tokens.tolist() == [0, 0]
    assert tree.depths.tolist() == [1, 2]
    assert [tree.pair_target[p].tolist() for p in tree.candidate_pairs] == [[0, 0, 4], [0, 4]]


def test_an_empty_candidate_is_refused_by_number():
    with pytest.raises(ValueError, match="candidate 1 has no tokens"):
        build_tree([[5], []])


@settings(max_examples=150, deadline=None)
@given(CANDIDATES, PREFIXES)
def test_each_token_is_read_behind_the_true_path_to_it(candidates, prefix):
    tree = build_tree(candidates)
    decoder = attach(tree, np.asarray(prefix, np.int32), START)
    chains = ancestors(decoder.tokens, decoder.positions)
    for candidate, pairs in zip(candidates, tree.candidate_pairs, strict=True):
        assert tree.pair_target[pairs].tolist() == candidate
        for at, pair in enumerate(pairs):
            node = decoder.read[tree.pair_read[pair]]
            read = [int(decoder.tokens[n]) for n in chains[node]]
            assert read == [START, *prefix, *candidate[:at]]
            assert decoder.positions[node] == len(prefix) + at, "positions as if it were alone"


@settings(max_examples=150, deadline=None)
@given(CANDIDATES, PREFIXES)
def test_the_rule_of_visibility_is_ancestry(candidates, prefix):
    decoder = attach(build_tree(candidates), np.asarray(prefix, np.int32), START)
    chains = ancestors(decoder.tokens, decoder.positions)
    for q, chain in enumerate(chains):
        seen = [k for k in range(len(chains)) if k <= q < decoder.ends[k]]
        assert seen == chain


@settings(max_examples=150, deadline=None)
@given(CANDIDATES)
def test_shared_beginnings_are_counted_once(candidates):
    tree = build_tree(candidates)
    inputs = {tuple(c[:k]) for c in candidates for k in range(1, len(c))}
    scored = {tuple(c[:k]) for c in candidates for k in range(1, len(c) + 1)}
    assert tree.size == len(inputs)
    assert len(tree.pair_target) == len(scored)
    # Only what is needed goes to the output matrix: nodes that predict something, each once.
    assert len(tree.read) == len({tuple(c[:k]) for c in candidates for k in range(len(c))})
    assert sorted(set(tree.read.tolist())) == tree.read.tolist()


@settings(max_examples=50, deadline=None)
@given(CANDIDATES, st.randoms(use_true_random=False))
def test_the_order_of_candidates_changes_no_size(candidates, random):
    other = list(candidates)
    random.shuffle(other)
    one, two = build_tree(candidates), build_tree(other)
    assert (one.size, len(one.read), len(one.pair_target)) == (
        two.size,
        len(two.read),
        len(two.pair_target),
    )
