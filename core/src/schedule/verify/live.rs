//! The live set: the slots that are live now, in a balanced tree sorted by address.
//!
//! The tree (an AVL tree, its nodes linked by their positions in the caller's slice) finds, adds and takes out a
//! slot in a time that grows with the logarithm of the live slots, in whatever order a blob asks for them.

use super::super::record::{Slot, Value, view};
use crate::NONE;
use heapless::Vec;

/// All parts of a value, or a value without parts.
pub(super) const WHOLE: u64 = u64::MAX;

/// Most nodes on the way from the root to a leaf: an AVL tree of 2^32 nodes is at most 46 high.
const MAX_HEIGHT: usize = 48;

/// Room for one live slot. Callers only provide room for these.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    held: Held,
    /// Children, or `NONE`; `left` of a free node is the next free one.
    left: u32,
    right: u32,
    /// Nodes on the longest way down from here; 0 for a free node.
    height: u8,
}

impl Default for Live {
    fn default() -> Live {
        Live { held: Held::EMPTY, left: NONE, right: NONE, height: 0 }
    }
}

/// What is known about a live slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub slot: u32,
    pub arena: u32,
    pub start: u64,
    pub end: u64,
    /// Root value that the slot holds, or `NONE`.
    pub holds: u32,
    /// Parts of it that are written.
    pub written: u64,
    /// How many parts it has when it is written in parts, and the value that is the first of them: a root may be
    /// cut in several ways.
    pub parts: u16,
    pub group: u32,
    pub depth: u8,
    /// Last wave that wrote it (plus 1; 0: none), and the parts written there.
    pub write_wave: u32,
    pub write_parts: u64,
    /// Last wave that read it (plus 1; 0: none), and the parts read there.
    pub read_wave: u32,
    pub read_parts: u64,
}

impl Held {
    const EMPTY: Held = Held {
        slot: NONE,
        arena: 0,
        start: 0,
        end: 0,
        holds: NONE,
        written: 0,
        parts: 0,
        group: NONE,
        depth: 0,
        write_wave: 0,
        write_parts: 0,
        read_wave: 0,
        read_parts: 0,
    };

    /// Slot `id`, which holds nothing yet. `slot` ends below 2^64.
    pub fn new(id: u32, slot: &Slot, depth: usize) -> Held {
        let end = slot.offset.saturating_add(slot.bytes);
        Held { slot: id, arena: slot.arena, start: slot.offset, end, depth: depth as u8, ..Held::EMPTY }
    }

    fn key(&self) -> (u32, u64) {
        (self.arena, self.start)
    }

    pub fn complete(&self) -> bool {
        self.written == WHOLE || (self.parts > 0 && self.written == mask(self.parts))
    }

    /// The slot holds all of `value`, or nothing where that is none.
    pub fn hold(&mut self, value: u32, written: u64) {
        (self.holds, self.written, self.parts, self.group) = (value, written, 0, NONE);
    }

    /// The bits that stand for a part of `group`: all, where the slot is written in other parts, as those may
    /// overlap it anywhere.
    pub fn bits(&self, v: &Value, group: u32) -> u64 {
        let same = self.group == group || self.group == NONE;
        if v.view == view::PART && same { 1 << (v.part & 63) } else { WHOLE }
    }
}

/// The first value of the parts that `value` belongs to.
pub(super) fn group_of(value: u32, v: &Value) -> u32 {
    if v.view == view::PART { value.saturating_sub(u32::from(v.part)) } else { NONE }
}

/// The bits of `parts` parts.
fn mask(parts: u16) -> u64 {
    if parts >= 64 { WHOLE } else { (1 << parts) - 1 }
}

/// Why a slot cannot become live.
pub(super) enum Refusal {
    /// This slot lies at the same or at overlapping addresses.
    Overlap(u32),
    /// The caller's slice is full; it has this length.
    Full(usize),
}

/// The nodes passed on the way down, and whether the way led right.
type Path = Vec<(u32, bool), MAX_HEIGHT>;

/// The tree. Positions of nodes are valid until the next [`remove`](Set::remove).
pub(super) struct Set<'a> {
    nodes: &'a mut [Live],
    root: u32,
    /// First free node below `used`.
    free: u32,
    /// Nodes that were ever taken.
    used: usize,
    count: usize,
    most: usize,
}

impl<'a> Set<'a> {
    pub fn new(nodes: &'a mut [Live]) -> Set<'a> {
        Set { nodes, root: NONE, free: NONE, used: 0, count: 0, most: 0 }
    }

    /// Takes all slots out.
    pub fn clear(&mut self) {
        (self.root, self.free, self.used, self.count) = (NONE, NONE, 0, 0);
    }

    /// The most slots that were live at a time.
    pub fn most(&self) -> usize {
        self.most
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// The live slot at a position.
    pub fn get(&mut self, at: u32) -> Option<&mut Held> {
        self.nodes.get_mut(at as usize).map(|n| &mut n.held)
    }

    /// All live slots.
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        self.nodes.iter().take(self.used).filter(|n| n.height > 0).map(|n| &n.held)
    }

    fn node(&self, at: u32) -> Option<&Live> {
        self.nodes.get(at as usize)
    }

    fn child(&self, at: u32, right: bool) -> u32 {
        self.node(at).map_or(NONE, |n| if right { n.right } else { n.left })
    }

    fn set_child(&mut self, at: u32, right: bool, child: u32) {
        if let Some(n) = self.nodes.get_mut(at as usize) {
            *(if right { &mut n.right } else { &mut n.left }) = child;
        }
    }

    fn height(&self, at: u32) -> u8 {
        self.node(at).map_or(0, |n| n.height)
    }

    /// The position of the live slot that begins where `slot` does, or `NONE`.
    pub fn find(&self, slot: &Slot) -> u32 {
        let (key, mut at) = ((slot.arena, slot.offset), self.root);
        while let Some(n) = self.node(at) {
            let here = n.held.key();
            if here == key {
                break;
            }
            at = if key > here { n.right } else { n.left };
        }
        at
    }

    /// Adds a slot; refused where it overlaps a live one. Live slots do not overlap, so its neighbours decide.
    pub fn insert(&mut self, held: Held) -> Result<u32, Refusal> {
        let (mut path, mut at) = (Path::new(), self.root);
        while let Some(n) = self.node(at) {
            let other = &n.held;
            if other.arena == held.arena && other.start < held.end && held.start < other.end {
                return Err(Refusal::Overlap(other.slot));
            }
            let right = held.key() > other.key();
            // The tree is never higher than the path is long.
            let _ = path.push((at, right));
            at = if right { n.right } else { n.left };
        }
        let full = Refusal::Full(self.nodes.len());
        let new = match self.node(self.free) {
            Some(n) => {
                let new = self.free;
                self.free = n.left;
                new
            }
            None if self.used < self.nodes.len() => {
                self.used += 1;
                (self.used - 1) as u32
            }
            None => return Err(full),
        };
        let Some(n) = self.nodes.get_mut(new as usize) else { return Err(full) };
        *n = Live { held, left: NONE, right: NONE, height: 1 };
        self.count += 1;
        self.most = self.most.max(self.count);
        self.attach(&path, new);
        Ok(new)
    }

    /// Takes out the slot that begins where `slot` does.
    pub fn remove(&mut self, slot: &Slot) {
        let (key, mut path, mut at) = ((slot.arena, slot.offset), Path::new(), self.root);
        loop {
            let Some(n) = self.node(at) else { return };
            if n.held.key() == key {
                break;
            }
            let right = key > n.held.key();
            let _ = path.push((at, right));
            at = if right { n.right } else { n.left };
        }
        let (found, left, right) = (at, self.child(at, false), self.child(at, true));
        if left != NONE && right != NONE {
            // The next slot takes this place; its own node goes.
            let _ = path.push((at, true));
            at = right;
            while self.child(at, false) != NONE {
                let _ = path.push((at, false));
                at = self.child(at, false);
            }
            if let (Some(next), Some(n)) = (self.node(at).copied(), self.nodes.get_mut(found as usize)) {
                n.held = next.held;
            }
        }
        let (left, right) = (self.child(at, false), self.child(at, true));
        if let Some(n) = self.nodes.get_mut(at as usize) {
            *n = Live { left: self.free, ..Live::default() };
        }
        self.free = at;
        self.count -= 1;
        self.attach(&path, if left != NONE { left } else { right });
    }

    /// Hangs `tree` under the end of a path and balances all nodes of the path.
    fn attach(&mut self, path: &Path, mut tree: u32) {
        for (at, right) in path.iter().rev() {
            self.set_child(*at, *right, tree);
            tree = self.balance(*at);
        }
        self.root = tree;
    }

    /// Balances a node whose children are balanced and differ by at most two; gives the root of the result.
    fn balance(&mut self, at: u32) -> u32 {
        let (l, r) = (self.height(self.child(at, false)), self.height(self.child(at, true)));
        if l.abs_diff(r) <= 1 {
            self.measure(at);
            return at;
        }
        // `high` is the side that is too high.
        let high = r > l;
        let child = self.child(at, high);
        if self.height(self.child(child, !high)) > self.height(self.child(child, high)) {
            let turned = self.rotate(child, high);
            self.set_child(at, high, turned);
        }
        self.rotate(at, !high)
    }

    /// Moves a node down to the right (or left), its other child up; gives that child.
    fn rotate(&mut self, at: u32, right: bool) -> u32 {
        let up = self.child(at, !right);
        let between = self.child(up, right);
        self.set_child(at, !right, between);
        self.set_child(up, right, at);
        self.measure(at);
        self.measure(up);
        up
    }

    fn measure(&mut self, at: u32) {
        let height = 1 + self.height(self.child(at, false)).max(self.height(self.child(at, true)));
        if let Some(n) = self.nodes.get_mut(at as usize) {
            n.height = height;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::vec;

    impl Set<'_> {
        /// Checks order, heights and balance; gives the slots in order.
        fn checked(&self, at: u32, out: &mut std::vec::Vec<u64>) -> u8 {
            let Some(n) = self.node(at) else { return 0 };
            let l = self.checked(n.left, out);
            out.push(n.held.start);
            let r = self.checked(n.right, out);
            assert!(l.abs_diff(r) <= 1 && n.height == 1 + l.max(r), "not balanced");
            n.height
        }
    }

    fn slot(offset: u64) -> Slot {
        Slot { arena: 0, reserved: 0, offset, bytes: 8 }
    }

    #[test]
    fn the_tree_is_a_sorted_set() {
        let mut room = vec![Live::default(); 300];
        let mut set = Set::new(&mut room);
        let mut model = BTreeMap::new();
        let mut seed = 1u64;
        for round in 0..20_000u32 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Runs of rising and falling addresses between random ones.
            let offset = match round / 500 % 3 {
                0 => seed >> 40,
                1 => u64::from(round % 500) * 8,
                _ => u64::from(500 - round % 500) * 8,
            } % 4096;
            let here = slot(offset);
            let clash = model.range(offset.saturating_sub(7)..offset + 8).next().is_some();
            if model.contains_key(&offset) {
                set.remove(&here);
                model.remove(&offset);
            } else {
                let full = model.len() == 300;
                match set.insert(Held::new(round, &here, 0)) {
                    Ok(at) => {
                        assert!(!clash && !full);
                        assert_eq!(set.get(at).map(|h| h.slot), Some(round));
                        model.insert(offset, round);
                    }
                    Err(Refusal::Overlap(_)) => assert!(clash),
                    Err(Refusal::Full(_)) => assert!(full),
                }
            }
            assert_eq!(set.find(&here) != NONE, model.contains_key(&offset));
            if round % 37 == 0 {
                let mut found = vec![];
                set.checked(set.root, &mut found);
                assert!(found.iter().eq(model.keys()));
                assert_eq!((set.len(), set.iter().count()), (model.len(), model.len()));
            }
        }
        set.clear();
        assert_eq!(set.iter().count(), 0);
    }
}
