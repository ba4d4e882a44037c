//! Cycles in a graph, each with an edge that can be cut.
//!
//! [`cycles`] follows all edges depth first and finds a cycle at each edge that leads back to where
//! it came from. Some edges can be cut, and each cycle has one: the search names one of them for
//! each cycle that has no cut edge yet. The cost is one step for each vertex and each edge.

use std::hash::Hash;

use bifrost_runtime::abi::Word;
use rustc_hash::{FxHashMap, FxHashSet};

/// The name of an edge that can be cut; [`FIRM`] for one that cannot.
pub(crate) type Cut = Word;

/// An edge that cannot be cut.
pub(crate) const FIRM: Cut = 0;

/// A vertex that was met.
#[derive(Clone, Copy)]
enum Met {
    /// It is on the way, at this place.
    Open(usize),
    /// All that it leads to was followed.
    Done,
}

/// A vertex on the way.
#[derive(Clone, Copy)]
struct Step<V> {
    vertex: V,
    /// The edge by which it was reached.
    edge: Cut,
    /// The start of the edges that were not followed.
    base: usize,
}

/// A cycle that is to be cut: its vertices in order, of which the last leads to the first, and the
/// edge to cut.
pub(crate) struct Cycle<'a, V> {
    pub(crate) vertices: &'a mut dyn Iterator<Item = V>,
    pub(crate) cut: Cut,
}

/// Finds cycles that can be reached from some vertices, until `found` returns that it wants no
/// more. `edges` appends the edges of a vertex.
pub(crate) fn cycles<V: Copy + Eq + Hash>(
    starts: impl IntoIterator<Item = V>,
    mut edges: impl FnMut(V, &mut Vec<(V, Cut)>),
    mut found: impl FnMut(Cycle<'_, V>) -> bool,
) {
    let mut met: FxHashMap<V, Met> = FxHashMap::default();
    let mut way: Vec<Step<V>> = Vec::new();
    let mut open: Vec<(V, Cut)> = Vec::new();
    // Places on the way that were reached by an edge that can be cut, and by one that is.
    let (mut loose, mut cut_at): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut cut: FxHashSet<Cut> = FxHashSet::default();
    for start in starts {
        open.push((start, FIRM));
        while let Some((vertex, edge)) = open.pop() {
            match met.get(&vertex) {
                None => {
                    met.insert(vertex, Met::Open(way.len()));
                    if edge != FIRM {
                        loose.push(way.len());
                    }
                    if cut.contains(&edge) {
                        cut_at.push(way.len());
                    }
                    way.push(Step { vertex, edge, base: open.len() });
                    edges(vertex, &mut open);
                }
                Some(Met::Open(from)) => {
                    let is_cut = cut.contains(&edge) || cut_at.last().is_some_and(|at| at > from);
                    let last = loose.last().copied().filter(|at| at > from);
                    let chosen = match (edge, last) {
                        _ if is_cut => None,
                        (FIRM, last) => last.map(|at| (way[at].edge, Some(at))),
                        (edge, _) => Some((edge, None)),
                    };
                    if let Some((edge, at)) = chosen {
                        cut.insert(edge);
                        cut_at.extend(at);
                        let mut vertices = way[*from..].iter().map(|step| step.vertex);
                        if !found(Cycle { vertices: &mut vertices, cut: edge }) {
                            return;
                        }
                    }
                }
                Some(Met::Done) => {}
            }
            while let Some(step) = way.last().filter(|step| step.base == open.len()) {
                met.insert(step.vertex, Met::Done);
                way.pop();
                loose.pop_if(|at| *at == way.len());
                cut_at.pop_if(|at| *at == way.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the edges that are cut, and the steps, in a graph of edges.
    fn cut(edges: &[(u32, u32, Cut)], starts: &[u32]) -> (Vec<Cut>, usize) {
        let (mut cut, mut steps) = (Vec::new(), 0);
        let follow = |vertex: u32, open: &mut Vec<(u32, Cut)>| {
            steps += 1;
            let own = edges.iter().filter(|(from, ..)| *from == vertex);
            open.extend(own.map(|(_, to, edge)| (*to, *edge)));
        };
        cycles(starts.iter().copied(), follow, |cycle| {
            assert!(cycle.vertices.count() > 0);
            cut.push(cycle.cut);
            true
        });
        cut.sort_unstable();
        (cut, steps)
    }

    #[test]
    fn each_cycle_is_cut_once_and_what_is_none_is_not() {
        assert_eq!(cut(&[(1, 2, 7), (2, 3, 0)], &[1, 2, 3]).0, []);
        assert_eq!(cut(&[(1, 2, 7), (2, 1, 0)], &[1]).0, [7]);
        assert_eq!(cut(&[(1, 1, 7)], &[1]).0, [7]);
        // Two ways to one vertex are no cycle.
        assert_eq!(cut(&[(1, 2, 5), (1, 3, 6), (2, 4, 0), (3, 4, 0), (4, 5, 8)], &[1]).0, []);
        // Two cycles that have an edge in common lose that alone.
        assert_eq!(cut(&[(1, 2, 7), (2, 1, 0), (2, 3, 0), (3, 1, 0)], &[1]).0, [7]);
        // Those that have only a vertex in common lose an edge each.
        assert_eq!(cut(&[(1, 2, 7), (2, 1, 0), (1, 3, 8), (3, 1, 0)], &[1]).0, [7, 8]);
    }

    #[test]
    fn random_graphs_have_a_cut_edge_at_each_back_edge_and_take_a_step_for_each_vertex() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |n: u32| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 33) as u32 % n
        };
        for _ in 0..200 {
            let count = 1 + below(12);
            let edges: Vec<(u32, u32, Cut)> =
                (0..below(30)).map(|at| (below(count), below(count), Cut::from(at + 1))).collect();
            let starts: Vec<u32> = (0..count).collect();
            let (found, steps) = cut(&edges, &starts);
            assert_eq!(steps, count as usize);
            // Cut again and again, a graph has no cycle in the end; one without cycles loses
            // nothing.
            let mut rest = edges.clone();
            let mut again = found.clone();
            while !again.is_empty() {
                rest.retain(|(.., edge)| !again.contains(edge));
                again = cut(&rest, &starts).0;
            }
            let mut left: Vec<u32> = starts.clone();
            while let Some(at) =
                left.iter().position(|v| rest.iter().all(|(from, to, _)| from != v || !left.contains(to)))
            {
                left.remove(at);
            }
            assert!(left.is_empty(), "{edges:?}");
            let acyclic: Vec<_> = edges.iter().copied().filter(|(from, to, _)| from < to).collect();
            assert_eq!(cut(&acyclic, &starts).0, []);
        }
    }
}
