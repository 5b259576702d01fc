"""Candidates as a tree: every distinct decoder token once.

A decoder reads `start` and then the targets shifted by one. Under one conditional all candidates
share the targets before the answer (the prefix), and many share their first tokens too:

    start  x_0  r_9  x_1 -+- The -+- cat
                          |       +- dog
                          +- A --- bird

Node y_t is read to predict y_{t+1}, so the last token of a candidate is a target and never an
input. What is scored are pairs (node, target); the pairs of the first tokens all sit on the last
node of the prefix. The branches do not depend on the prefix: one `CandidateTree` serves all
conditionals of an example.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class CandidateTree:
    """The branches behind a prefix, in depth-first order.

    Node 0 stands for the last node of the prefix; branch nodes count from 1.

    Attributes:
      tokens: int32 [n], the token of each branch node.
      depths: int32 [n], 1 for the children of the prefix.
      ends: int32 [n], one past the last descendant, in branch numbering.
      read: int32 [h], the nodes whose state is read, ascending (0 among them).
      pair_read: int32 [p], index into `read` of each scored pair.
      pair_target: int32 [p], the token that the pair predicts.
      candidate_pairs: for each candidate an int32 [m_c]: the pair of each of its tokens.
    """

    tokens: np.ndarray
    depths: np.ndarray
    ends: np.ndarray
    read: np.ndarray
    pair_read: np.ndarray
    pair_target: np.ndarray
    candidate_pairs: tuple[np.ndarray, ...]

    @property
    def size(self) -> int:
        """Number of branch nodes n."""
        return len(self.tokens)


def build_tree(candidates: Sequence[Sequence[int] | np.ndarray]) -> CandidateTree:
    """The tree of `candidates`, each a non-empty sequence of token ids.

    Raises:
      ValueError: if a candidate has no tokens.
    """
    children: list[dict[int, int]] = [{}]
    tokens: list[int] = [0]
    parents: list[int] = [0]
    pairs: dict[tuple[int, int], int] = {}
    paths: list[list[int]] = []
    for number, candidate in enumerate(candidates):
        if len(candidate) == 0:
            raise ValueError(f"candidate {number} has no tokens")
        node, path = 0, []
        for token in map(int, candidate):
            path.append(pairs.setdefault((node, token), len(pairs)))
            if len(path) < len(candidate):
                if token not in children[node]:
                    children[node][token] = len(tokens)
                    children.append({})
                    tokens.append(token)
                    parents.append(node)
                node = children[node][token]
        paths.append(path)

    order, depth = [], [0] * len(tokens)  # depth-first numbering of the nodes as inserted
    stack = [0]
    while stack:
        node = stack.pop()
        order.append(node)
        depth[node] = depth[parents[node]] + 1 if node else 0
        stack.extend(reversed(children[node].values()))
    number_of = np.empty(len(order), np.int32)
    number_of[order] = np.arange(len(order), dtype=np.int32)
    ends = np.arange(1, len(order) + 1, dtype=np.int32)
    for node in reversed(order):  # children before parents
        mine, parent = number_of[node], number_of[parents[node]]
        ends[parent] = max(ends[parent], ends[mine])

    pair_nodes = number_of[[node for node, _ in pairs]]
    read, pair_read = np.unique(pair_nodes, return_inverse=True)
    return CandidateTree(
        tokens=np.asarray(tokens, np.int32)[order][1:],
        depths=np.asarray(depth, np.int32)[order][1:],
        ends=ends[1:],
        read=read.astype(np.int32),
        pair_read=pair_read.astype(np.int32),
        pair_target=np.asarray([token for _, token in pairs], np.int32),
        candidate_pairs=tuple(np.asarray(path, np.int32) for path in paths),
    )


@dataclasses.dataclass(frozen=True)
class DecoderTree:
    """One prompt's decoder input: the start token, the prefix, the branches.

    Attributes:
      tokens: int32 [t], decoder inputs.
      positions: int32 [t], depth of each; a branch goes on where the prefix ends.
      ends: int32 [t], one past the last descendant of each.
      read: int32 [h], positions whose state is read.
    """

    tokens: np.ndarray
    positions: np.ndarray
    ends: np.ndarray
    read: np.ndarray


def attach(tree: CandidateTree, prefix: np.ndarray, start: int) -> DecoderTree:
    """`tree` behind the targets `prefix` [P]: 1 + P + n decoder inputs."""
    chain = len(prefix) + 1
    total = chain + tree.size
    return DecoderTree(
        tokens=np.concatenate([[start], prefix, tree.tokens]).astype(np.int32),
        positions=np.concatenate([np.arange(chain), tree.depths + (chain - 1)]).astype(np.int32),
        ends=np.concatenate([np.full(chain, total), tree.ends + (chain - 1)]).astype(np.int32),
        read=tree.read + (chain - 1),
    )
