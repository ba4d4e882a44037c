//! Finds which objects lead to which, among objects that only some of the roots reach.
//!
//! It serves a search that spans several heaps. The *named* objects are those that another heap
//! knows. Of each it must be known to which other named objects it leads, as if the heap stood
//! still. [`Summary`] is a graph with a vertex for each named object and for each place where
//! several ways meet; all other objects are left out.
//!
//! It is found in the course of marking, by R. Tarjan's algorithm for strongly connected components
//! ("Depth-First Search and Linear Graph Algorithms", 1972): the objects of a component live and
//! die together. Time is that of marking, and of a search by hash for each object. Room is needed
//! for the way that is being followed, and for objects that lead to named ones.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::mark::Marker;
use crate::{Reference, Word};

/// The graph of the named objects: which of them lead to which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// By vertex: the range of its edges.
    edges_of: Vec<Range<u32>>,
    /// The vertices that edges lead to.
    edges: Vec<u32>,
    /// By vertex: the range of the numbers of its names.
    names_of: Vec<Range<u32>>,
    names: Vec<u32>,
    /// By name.
    vertices: Vec<Option<u32>>,
}

impl Summary {
    /// The vertex of a named object; none if it was found before the search for ways began, or not
    /// at all.
    pub fn vertex(&self, name: usize) -> Option<u32> {
        self.vertices.get(name).copied().flatten()
    }

    /// The number of vertices.
    pub fn vertex_count(&self) -> usize {
        self.edges_of.len()
    }

    /// The vertices to which a vertex leads at once.
    pub fn edges(&self, vertex: u32) -> &[u32] {
        &self.edges[as_usize(&self.edges_of[vertex as usize])]
    }

    /// The named objects that a vertex stands for.
    pub fn names(&self, vertex: u32) -> &[u32] {
        &self.names[as_usize(&self.names_of[vertex as usize])]
    }
}

fn as_usize(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// The state of an object that the search has met.
#[derive(Clone, Copy)]
enum Met {
    /// Its component is not complete; its number in the order of coming.
    Open(u32),
    /// It leads to this vertex.
    Vertex(u32),
}

/// An object whose references are being followed.
struct Frame {
    object: Reference,
    number: u32,
    /// The least number of an object whose component is not complete that it leads to.
    low: u32,
    /// The field that comes next.
    next: usize,
    /// The position of the first edge that was found behind it.
    edges: usize,
}

/// A search under way.
#[derive(Default)]
struct Search {
    met: FxHashMap<Word, Met>,
    frames: Vec<Frame>,
    /// Objects whose component is not complete.
    open: Vec<Reference>,
    /// Edges of components that are not complete.
    edges: Vec<u32>,
    numbers: u32,
    summary: Summary,
}

impl Marker {
    /// Marks the objects that the named objects reach and that were not found so far, and finds
    /// which named objects lead to which. `names` has the number of each, from 0 on; the ways are
    /// followed from those in `from`.
    pub fn summarise(&mut self, names: &FxHashMap<Word, u32>, from: &[Reference]) -> Summary {
        let mut search = Search::default();
        search.summary.vertices = vec![None; names.len()];
        for object in from {
            if self.claim(*object) {
                search.enter(*object);
                search.run(self, names);
            }
        }
        search.summary
    }
}

impl Search {
    fn enter(&mut self, object: Reference) {
        let number = self.numbers;
        self.numbers += 1;
        self.met.insert(object.word(), Met::Open(number));
        self.open.push(object);
        self.frames.push(Frame { object, number, low: number, next: 0, edges: self.edges.len() });
    }

    /// Follows all ways from the object that was entered.
    fn run(&mut self, marker: &mut Marker, names: &FxHashMap<Word, u32>) {
        while let Some(frame) = self.frames.last_mut() {
            let object = frame.object;
            let Some(field) = object.shape().next_reference(frame.next, object.fields()) else {
                self.leave(names);
                continue;
            };
            frame.next = field + 1;
            let Some(child) = object.follow(field) else { continue };
            if marker.claim(child) {
                if !child.shape().is_leaf() || names.contains_key(&child.word()) {
                    self.enter(child);
                }
                continue;
            }
            // An object found before the search lives in any case, and one that leads to no named
            // object does not matter.
            match self.met.get(&child.word()) {
                Some(Met::Open(number)) => frame.low = frame.low.min(*number),
                Some(Met::Vertex(vertex)) => self.edges.push(*vertex),
                None => {}
            }
        }
    }

    /// All references of the last object were followed.
    fn leave(&mut self, names: &FxHashMap<Word, u32>) {
        let Some(frame) = self.frames.pop() else { return };
        if frame.low < frame.number {
            // It belongs to the component of an object before it.
            if let Some(before) = self.frames.last_mut() {
                before.low = before.low.min(frame.low);
            }
            return;
        }
        // The objects that came behind this one and are not complete are of its component.
        let start = self.open.iter().rposition(|open| *open == frame.object).unwrap_or_default();
        let found: Vec<u32> =
            self.open[start..].iter().filter_map(|object| names.get(&object.word()).copied()).collect();
        let mut edges = self.edges.split_off(frame.edges);
        edges.sort_unstable();
        edges.dedup();
        let vertex = match (&found[..], &edges[..]) {
            ([], []) => None,
            ([], [one]) => Some(*one),
            _ => Some(self.summary.add(&found, &edges)),
        };
        for object in self.open.drain(start..) {
            match vertex {
                Some(vertex) => self.met.insert(object.word(), Met::Vertex(vertex)),
                None => self.met.remove(&object.word()),
            };
        }
        self.edges.extend(vertex.filter(|_| !self.frames.is_empty()));
    }
}

impl Summary {
    fn add(&mut self, names: &[u32], edges: &[u32]) -> u32 {
        let vertex = self.edges_of.len() as u32;
        let extend = |all: &mut Vec<u32>, more: &[u32]| {
            let start = all.len() as u32;
            all.extend_from_slice(more);
            start..all.len() as u32
        };
        self.edges_of.push(extend(&mut self.edges, edges));
        self.names_of.push(extend(&mut self.names, names));
        for name in names {
            self.vertices[*name as usize] = Some(vertex);
        }
        vertex
    }
}
