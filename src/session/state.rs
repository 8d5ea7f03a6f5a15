//! State and params: reading, writing, saving, restoring.

use super::{Session, check_tensor};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::tensor::{Tensor, TensorView};
use serinette_core::schedule::Bindings;
use serinette_core::schedule::bind::{BoundValue, Place};
use serinette_core::schedule::record::{role, view};
use serinette_core::{DType, schedule};

/// The state of a session, to be put back later into a session of the same program, on any device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedState {
    /// Digest of the program.
    pub program: [u8; 32],
    /// Name and contents of each state tensor.
    pub tensors: Vec<(String, Vec<u8>)>,
}

impl Session {
    /// Copies the state out.
    pub fn save_state(&mut self) -> Result<SavedState, Error> {
        let model = self.model.clone();
        let mut tensors = Vec::new();
        for id in self.states() {
            let (arena, offset) = self.persistent_place(id)?;
            let mut bytes = vec![0; self.persistent_bytes(id)?];
            self.engine.read(arena, offset, &mut bytes)?;
            tensors.push((model.value_name(id), bytes));
        }
        Ok(SavedState { program: model.program().header.digest, tensors })
    }

    /// Puts saved state back, and trusts it again after a failed run.
    pub fn restore_state(&mut self, saved: &SavedState) -> Result<(), Error> {
        if saved.program != self.model.program().header.digest {
            return Err(Error::OtherProgram);
        }
        // Everything is checked before anything is written.
        let mut writes = Vec::new();
        for (name, bytes) in &saved.tensors {
            let id = self.named_value("state", role::STATE, name)?;
            let expected = self.persistent_bytes(id)?;
            if bytes.len() != expected {
                return Err(Error::Length { name: name.clone(), expected, found: bytes.len() });
            }
            writes.push((self.persistent_place(id)?, bytes));
        }
        for ((arena, offset), bytes) in writes {
            self.engine.write(arena, offset, bytes)?;
        }
        self.poisoned = false;
        Ok(())
    }

    /// Sets all state to zeros, and trusts it again after a failed run.
    pub fn reset_state(&mut self) -> Result<(), Error> {
        for id in self.states() {
            let (arena, offset) = self.persistent_place(id)?;
            let bytes = self.persistent_bytes(id)?;
            let zeros = Buffer::new(bytes).ok_or(Error::Budget { budget: 0, needed: bytes as u64 })?;
            self.engine.write(arena, offset, zeros.bytes())?;
        }
        self.poisoned = false;
        Ok(())
    }

    /// Sets one state tensor.
    pub fn set_state(&mut self, name: &str, tensor: &TensorView<'_>) -> Result<(), Error> {
        let id = self.named_value("state", role::STATE, name)?;
        self.write_persistent(id, tensor)
    }

    /// What a param holds now.
    ///
    /// # Errors
    /// No param of this name, and one that was never set.
    pub fn param(&mut self, name: &str) -> Result<Tensor, Error> {
        let id = self.named_value("param", role::PARAM, name)?;
        if self.missing.contains(&id) {
            return Err(Error::MissingParam { param: name.into() });
        }
        let (v, (arena, offset)) = (self.persistent(id)?, self.persistent_place(id)?);
        let mut bytes = vec![0; v.bytes];
        self.engine.read(arena, offset, &mut bytes)?;
        Ok(Tensor { dtype: v.dtype, shape: v.shape.dims().to_vec(), bytes })
    }

    fn states(&self) -> Vec<u32> {
        let values = self.model.program().values.iter();
        values.filter(|(_, v)| v.role == role::STATE && v.view == view::NONE).map(|(id, _)| id).collect()
    }

    /// The value of a role and name.
    pub(super) fn named_value(&self, what: &'static str, wanted: u8, name: &str) -> Result<u32, Error> {
        let program = self.model.program();
        let of_role = || program.values.iter().filter(|(_, v)| v.role == wanted && v.view == view::NONE);
        of_role().find(|(_, v)| program.text(v.name) == Ok(name)).map(|(id, _)| id).ok_or_else(|| {
            Error::Name {
                what,
                name: name.into(),
                known: of_role().map(|(id, _)| self.model.value_name(id)).collect(),
            }
        })
    }

    /// Arena and offset of a state, param or derived value.
    pub(super) fn persistent_place(&self, id: u32) -> Result<(u32, usize), Error> {
        let bindings = Bindings::precomputed(*self.model.program(), self.plan, &self.exprs)?;
        match bindings.value(id, &[])?.place {
            Place::Arena { arena, offset } => Ok((arena, offset)),
            Place::Weights { .. } => {
                let reason = schedule::Reason::Role;
                Err(schedule::Error::at(reason, schedule::record::SectionId::Values, id, 0, 0).into())
            }
        }
    }

    fn persistent_bytes(&self, id: u32) -> Result<usize, Error> {
        Ok(self.persistent(id)?.bytes)
    }

    /// A persistent value with its shape and size.
    fn persistent(&self, id: u32) -> Result<BoundValue, Error> {
        let program = self.model.program();
        if self.bound {
            let bindings = Bindings::precomputed(*program, self.plan, &self.exprs)?;
            return Ok(bindings.value(id, &[])?);
        }
        // Before the first run: sizes that are constants are known all the same.
        let mut exprs = vec![0; program.exprs.len()];
        schedule::expr::evaluate(program, &self.symbols[..], &mut exprs)?;
        let bindings = Bindings::precomputed(*program, self.plan, &exprs)?;
        Ok(bindings.value(id, &[])?)
    }

    pub(super) fn write_persistent(&mut self, id: u32, tensor: &TensorView<'_>) -> Result<(), Error> {
        let name = self.model.value_name(id);
        let program = self.model.program();
        let v = program.values.get(id)?;
        check_tensor(&name, tensor, DType::from_code(v.dtype).unwrap_or(DType::F32))?;
        let expected = self.persistent_bytes(id)?;
        let rank = usize::from(v.rank);
        let fixed = program.value_dims(v)?.zip(tensor.shape).all(|(e, d)| {
            let constant = program.exprs.get(e).map(|e| (e.op, e.b));
            constant.is_ok_and(|(op, b)| op != schedule::record::expr_op::CONSTANT || b == *d as u64)
        });
        if tensor.shape.len() != rank || !fixed || tensor.bytes.len() != expected {
            let (expected, found) = (self.model.dims_text(id), tensor.shape.to_vec());
            return Err(Error::Shape { name, expected, found });
        }
        let (arena, offset) = self.persistent_place(id)?;
        self.engine.write(arena, offset, tensor.bytes)
    }
}
