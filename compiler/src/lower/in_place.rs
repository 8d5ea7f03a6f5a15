//! Results that take over the memory of an operand that dies.

use super::{LowStep, Place, Program};
use serinette_core::schedule::record::{role, step_kind, value_flag};
use std::collections::{HashMap, HashSet};

/// Marks `in_place` in every step where the op allows it and nothing reads the operand afterwards.
pub(super) fn mark(program: &mut Program) {
    let facts = Facts::collect(program);
    for i in 0..program.steps.len() {
        let mut marks = [0u8; 4];
        let Some(step) = program.steps.get(i) else { continue };
        let Some(op) = step.op else { continue };
        let mut taken: HashSet<u32> = HashSet::new();
        for (o, y) in step.outputs.iter().enumerate() {
            let candidates = op.in_place.iter().filter(|(_, out)| usize::from(*out) == o);
            for input in candidates.map(|(input, _)| usize::from(*input)) {
                let Some(x) = step.inputs.get(input).copied().flatten() else { continue };
                if !taken.contains(&x) && facts.allows(program, step, i, x, *y) {
                    taken.insert(x);
                    // Signatures have far fewer than 255 operands.
                    marks[o] = input as u8 + 1;
                    break;
                }
            }
        }
        if let Some(s) = program.steps.get_mut(i) {
            s.in_place = marks;
        }
    }
}

/// Where memory is written and read, by root value.
struct Facts {
    /// Region in which each step lies: the index of its opening step plus 1, 0 for the top of an entry.
    region: Vec<usize>,
    /// Region in which memory is first written, or of its entry.
    home: HashMap<u32, usize>,
    /// Last step that reads memory.
    last_read: HashMap<u32, usize>,
    /// Memory that regions decide about: results and carried values.
    listed: HashSet<u32>,
    /// Carried pairs.
    pairs: HashSet<(u32, u32)>,
    /// Memory that is written in parts, or read when the entry has ended.
    fixed: HashSet<u32>,
}

impl Facts {
    fn collect(p: &Program) -> Facts {
        let mut f = Facts {
            region: Vec::new(),
            home: HashMap::new(),
            last_read: HashMap::new(),
            listed: HashSet::new(),
            pairs: HashSet::new(),
            fixed: HashSet::new(),
        };
        for v in &p.values {
            if let Place::Part { root, .. } = v.place {
                f.fixed.insert(root);
            }
        }
        for e in &p.entries {
            f.fixed.extend(e.outputs.iter().map(|v| p.root(*v)));
            for v in &e.inputs {
                f.home.insert(*v, 0);
            }
        }
        let mut open: Vec<usize> = Vec::new();
        for (i, s) in p.steps.iter().enumerate() {
            if matches!(s.kind, step_kind::ELSE | step_kind::END) {
                open.pop();
            }
            let here = open.last().copied().unwrap_or(0);
            f.region.push(here);
            for x in s.inputs.iter().flatten() {
                f.last_read.insert(p.root(*x), i);
            }
            for y in &s.outputs {
                f.home.entry(p.root(*y)).or_insert(here);
            }
            match s.kind {
                step_kind::IF => f.listed.extend(&s.outputs),
                step_kind::LOOP => {
                    f.listed.extend(&s.outputs);
                    f.listed.extend(s.inputs.iter().skip(2).flatten());
                    let pairs = s.inputs.iter().skip(2).zip(&s.outputs);
                    f.pairs.extend(pairs.filter_map(|(before, after)| before.map(|b| (b, *after))));
                }
                _ => {}
            }
            if matches!(s.kind, step_kind::IF | step_kind::LOOP | step_kind::ELSE) {
                open.push(i + 1);
            }
        }
        f
    }

    /// Whether step `i` may store `y` over `x`.
    fn allows(&self, p: &Program, step: &LowStep, i: usize, x: u32, y: u32) -> bool {
        let (Some(a), Some(b)) = (p.values.get(x as usize), p.values.get(y as usize)) else { return false };
        let root = p.root(x);
        let once = step.inputs.iter().flatten().filter(|v| p.root(**v) == root).count() == 1;
        let whole = matches!(a.place, Place::Own | Place::Reshape { .. }) && b.place == Place::Own;
        if !once || !whole || a.dims != b.dims || a.dtype != b.dtype {
            return false;
        }
        // A carried pair shares memory anyway: where its step reads the one and writes the other, it must say so.
        // That nothing reads the old value later was made sure of when the step was chosen.
        if self.pairs.contains(&(root, y)) {
            return true;
        }
        let input = a.role == role::INPUT && a.flags & value_flag::KEEP == 0;
        let plain = (a.role == role::INTERMEDIATE || input) && b.role == role::INTERMEDIATE;
        let free = |v: u32| !self.listed.contains(&v) && !self.fixed.contains(&v);
        let here = self.region.get(i).copied();
        // The result may be read after the entry; only its own memory must not be decided elsewhere.
        plain
            && free(root)
            && !self.listed.contains(&y)
            && self.last_read.get(&root) == Some(&i)
            && self.home.get(&root).copied() == here
            && self.home.get(&y).copied() == here
    }
}
