"""Where a pair of conditional tables is positive, as a graph between the words of two positions.

Nodes are the I words at position a and the J words at position b; an edge joins a_i and b_j when
the cell is positive. A joint distribution is pinned down only within one connected component.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components


def bipartite_graph(support: np.ndarray) -> csr_array:
    """The directed edges a_i -> b_j of `support` [I, J] (bool), nodes a first, [I+J, I+J]."""
    rows, columns = np.nonzero(support)
    size = sum(support.shape)
    return csr_array((np.ones(rows.size), (rows, columns + support.shape[0])), shape=(size, size))


def components(support: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
    """Connected components of `support` [I, J]: their number, labels [I] of a, labels [J] of b."""
    count, labels = connected_components(bipartite_graph(support), directed=False)
    return int(count), labels[: support.shape[0]], labels[support.shape[0] :]


def potentials(values: np.ndarray, support: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u [I] and v [J] with values = u_i + v_j along a spanning tree of every component.

    The rest, values - u - v on the support, is what no such pair can explain: each entry is the
    alternating sum of `values` around the cycle that its edge closes. It vanishes everywhere
    exactly when `values` is additive on the support.
    """
    rows = support.shape[0]
    graph = bipartite_graph(support)
    found = np.zeros(sum(support.shape))
    seen = np.zeros(found.size, dtype=bool)
    for start in range(found.size):
        if seen[start]:
            continue
        nodes, parents = breadth_first_order(graph, start, directed=False)
        seen[nodes] = True
        for node in nodes[1:]:
            parent = parents[node]
            i, j = (node, parent - rows) if node < rows else (parent, node - rows)
            found[node] = values[i, j] - found[parent]
    return found[:rows], found[rows:]
