//! Shapes of convolutions over one to three axes.

use serinette_core::op::spatial::{Conv, Spatial, aligned};

/// Dimensions of `x` and `w`, groups and windows.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) what: &'static str,
    pub(crate) x: &'static [usize],
    pub(crate) w: &'static [usize],
    pub(crate) groups: u32,
    strides: &'static [u32],
    before: &'static [u32],
    after: &'static [u32],
    dilations: &'static [u32],
    output_padding: &'static [u32],
}

pub(crate) const fn shape(what: &'static str, x: &'static [usize], w: &'static [usize]) -> Shape {
    Shape {
        what,
        x,
        w,
        groups: 1,
        strides: &[],
        before: &[],
        after: &[],
        dilations: &[],
        output_padding: &[],
    }
}

impl Shape {
    pub(crate) const fn groups(self, groups: u32) -> Shape {
        Shape { groups, ..self }
    }
    pub(crate) const fn strides(self, strides: &'static [u32]) -> Shape {
        Shape { strides, ..self }
    }
    pub(crate) const fn pads(self, before: &'static [u32], after: &'static [u32]) -> Shape {
        Shape { before, after, ..self }
    }
    pub(crate) const fn dilations(self, dilations: &'static [u32]) -> Shape {
        Shape { dilations, ..self }
    }
    pub(crate) const fn output_padding(self, output_padding: &'static [u32]) -> Shape {
        Shape { output_padding, ..self }
    }

    pub(crate) fn spatial(&self) -> Spatial {
        let axes = self.x.len() - 2;
        Spatial::new(axes, self.strides, self.before, self.after, self.dilations).unwrap_or(Spatial::PLAIN)
    }

    pub(crate) fn padding(&self) -> [u32; 3] {
        aligned(self.x.len() - 2, self.output_padding, 0).unwrap_or([0; 3])
    }

    pub(crate) fn conv(&self, activation: u32) -> Conv {
        Conv { spatial: self.spatial(), groups: self.groups, activation }
    }
}
