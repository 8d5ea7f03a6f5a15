//! Conditions of later dispatches.

use super::generated as g;
use super::launch::{ABSENT, Launch};
use serinette_dispatch::{Gate, LowerError};

pub(super) fn lower(gate: &Gate, to: &mut Launch<'_>) -> Result<(), LowerError> {
    let (trips, trip) = gate.trips.unwrap_or((ABSENT, 0));
    if trips != ABSENT && !trips.is_multiple_of(4) {
        return Err(LowerError::Invalid("a trip count that is not aligned"));
    }
    let params = g::GateOf {
        condition: gate.condition.unwrap_or(ABSENT),
        trips,
        trip,
        negate: u32::from(gate.negate),
        parent: gate.parent.unwrap_or(ABSENT),
        flag: gate.flag,
        first: gate.first_record,
        records: gate.records,
        table: gate.table,
    };
    to.groups(g::GATE, params.words(), 1, false)
}
