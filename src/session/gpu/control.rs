//! The control buffer: fault word, flags of gates, grids of conditional dispatches.
//!
//! A condition that only the device knows becomes a *gate*: a small dispatch that sets a flag and fills the grids of
//! the dispatches that depend on it, with their real sizes or with zeros.

use serinette_dispatch::{FIRST_FLAG, Gate};

/// A gate that is being recorded.
pub(super) struct PendingGate {
    gate: Gate,
    grids: Vec<[u32; 3]>,
}

/// The gates of one recording.
#[derive(Default)]
pub(super) struct Control {
    gates: Vec<PendingGate>,
}

/// Number of a gate.
pub(super) type GateId = usize;

impl Control {
    /// Adds a gate; `parent` is the gate around it.
    pub(super) fn add(
        &mut self,
        condition: Option<u32>,
        negate: bool,
        trips: Option<(u32, u32)>,
        parent: Option<GateId>,
    ) -> GateId {
        let id = self.gates.len();
        let flag = |id: GateId| FIRST_FLAG + id as u32;
        let gate = Gate {
            condition,
            trips,
            negate,
            parent: parent.map(flag),
            flag: flag(id),
            first_record: 0,
            records: 0,
            table: 0,
        };
        self.gates.push(PendingGate { gate, grids: Vec::new() });
        id
    }

    /// Adds a dispatch to a gate; gives its number within the gate.
    pub(super) fn guard(&mut self, gate: GateId, grid: [u32; 3]) -> u32 {
        let Some(g) = self.gates.get_mut(gate) else { return 0 };
        g.grids.push(grid);
        g.grids.len() as u32 - 1
    }

    /// The words of the control buffer, and every gate with its place in them. Records of a gate follow one another.
    pub(super) fn finish(&self) -> (Vec<u32>, Vec<Gate>, u32) {
        let first_table = FIRST_FLAG + self.gates.len() as u32;
        let mut words = vec![0u32; first_table as usize];
        let (mut gates, mut record) = (Vec::new(), 0);
        for g in &self.gates {
            gates.push(Gate {
                first_record: record,
                records: g.grids.len() as u32,
                table: first_table + 3 * record,
                ..g.gate
            });
            words.extend(g.grids.iter().flatten());
            record += g.grids.len() as u32;
        }
        (words, gates, record)
    }
}
