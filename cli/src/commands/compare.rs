//! `serinette compare`.

use super::tell;
use crate::args::{Compare, DeviceName};
use crate::failure::Failure;
use crate::{compile, device, entry, input};
use serinette::compare::{Difference, Tolerance, first_difference};
use serinette::{Model, SessionOptions};
use std::io::Write;

/// Seed of inputs that are not given.
pub const SEED: u64 = 1;

/// Runs a model step by step on two devices.
pub fn run(args: &Compare) -> Result<(), Failure> {
    let ids = device::ids(&[args.first.clone(), args.second.clone()]);
    let ([first, second], false) = (ids.as_slice(), [&args.first, &args.second].contains(&&DeviceName::All))
    else {
        return Err(Failure::usage("compare takes two different devices, such as host and vulkan:0"));
    };
    let loaded = compile::load(&args.file, &args.compile)?;
    tell(&loaded.notes);
    let model = &loaded.model;
    let callable = entry::pick(model, args.inputs.entry.as_deref())?;
    let inputs = input::load(model, &callable, &args.inputs, Some(SEED))?;
    tell(&inputs.notes);
    let mut sessions = Vec::new();
    for id in [first, second] {
        let opened = device::open(id)?;
        let session = inputs.session(model, &opened.device, &SessionOptions::default());
        sessions.push(session.map_err(|e| e.within(id))?);
    }
    let [a, b] = sessions.as_mut_slice() else { return Ok(()) };
    let tolerance = Tolerance { relative: args.relative, absolute: args.absolute };
    match first_difference(a, b, callable.name, &inputs.views(), tolerance)? {
        None => {
            let (relative, absolute) = (tolerance.relative, tolerance.absolute);
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "every step agrees on {first} and {second} (relative {relative}, absolute {absolute})"
            )?;
            Ok(())
        }
        Some(d) => Err(Failure::new(describe(model, &d, first, second))),
    }
}

/// The first difference in words.
pub fn describe(model: &Model, d: &Difference, first: &str, second: &str) -> String {
    let step = d.step_name.as_ref().map(|n| format!(" ({n})")).unwrap_or_default();
    format!(
        "{first} and {second} differ first at step {}{step}, '{}' {}: {} elements; element {} is {} on {first}, {} on {second}",
        d.step,
        model.value_name(d.value),
        model.dims_text(d.value),
        d.count,
        d.element,
        d.first,
        d.second
    )
}
