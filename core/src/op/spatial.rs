//! Windows that slide over one to three spatial axes.

use super::{AttrError, Attributes, ShapeArgs};
use crate::shape::{Dim, DimAlgebra, Dims, ShapeError};

/// Most spatial axes.
pub const MAX_AXES: usize = 3;

/// Largest stride, padding, dilation or window: keeps every product of a size and one of these below 2^63.
pub const MAX_EXTENT: u32 = 1 << 16;

/// Where a window slides, in elements. The entries are those of the last three axes: a tensor `[N, C, W]` has its
/// numbers in entry 2, `[N, C, H, W]` in entries 1 and 2. Entries in front of the first spatial axis are neutral:
/// stride 1, no padding, dilation 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Spatial {
    /// Steps between windows, at least 1.
    pub strides: [u32; 3],
    /// Padding before the first element of an axis.
    pub before: [u32; 3],
    /// Padding behind the last element of an axis.
    pub after: [u32; 3],
    /// Steps between taps of one window, at least 1.
    pub dilations: [u32; 3],
}

impl Spatial {
    /// Windows that move by one, without padding or gaps.
    pub const PLAIN: Spatial = Spatial { strides: [1; 3], before: [0; 3], after: [0; 3], dilations: [1; 3] };

    /// From one number for each of one to three axes, as ONNX lists them; an empty list means the neutral numbers.
    /// `None` for lists of another length.
    pub fn new(
        axes: usize,
        strides: &[u32],
        before: &[u32],
        after: &[u32],
        dilations: &[u32],
    ) -> Option<Spatial> {
        Some(Spatial {
            strides: aligned(axes, strides, 1)?,
            before: aligned(axes, before, 0)?,
            after: aligned(axes, after, 0)?,
            dilations: aligned(axes, dilations, 1)?,
        })
    }

    pub(super) fn check(&self) -> Result<(), AttrError> {
        extents("strides", &self.strides, 1)?;
        extents("before", &self.before, 0)?;
        extents("after", &self.after, 0)?;
        extents("dilations", &self.dilations, 1)
    }

    /// An error unless the entries in front of the `axes` last ones are neutral.
    pub(super) fn check_axes(&self, axes: usize) -> Result<(), ShapeError> {
        neutral("stride of an absent axis", &self.strides, axes, 1)?;
        neutral("padding of an absent axis", &self.before, axes, 0)?;
        neutral("padding of an absent axis", &self.after, axes, 0)?;
        neutral("dilation of an absent axis", &self.dilations, axes, 1)
    }

    /// Elements from the first to the last tap of a window of `taps` along entry `i`, both included.
    pub(super) fn span(&self, i: usize, taps: u64) -> Result<u64, ShapeError> {
        u64::from(self.dilations[i])
            .checked_mul(taps.checked_sub(1).ok_or(ShapeError::new("taps of a window", 1, 0))?)
            .and_then(|s| s.checked_add(1))
            .ok_or(ShapeError::OVERFLOW)
    }

    /// Number of window positions along entry `i` of an axis of `size` under `taps` taps:
    /// `⌊(size + before + after − span) / stride⌋ + 1`; the window must fit.
    pub(super) fn positions(
        &self,
        alg: &mut dyn DimAlgebra,
        i: usize,
        size: Dim,
        taps: u64,
    ) -> Result<Dim, ShapeError> {
        let span = self.span(i, taps)?;
        let pads = alg.constant(u64::from(self.before[i]) + u64::from(self.after[i]))?;
        let padded = alg.add(size, pads)?;
        let least = alg.constant(span)?;
        alg.require_at_most("kernel within the padded input", least, padded)?;
        let room = alg.saturating_sub(padded, span)?;
        let steps = alg.div_floor(room, u64::from(self.strides[i]))?;
        let one = alg.constant(1)?;
        alg.add(steps, one)
    }
}

/// Numbers of the last `axes` axes, with `neutral` in front.
pub fn aligned(axes: usize, list: &[u32], neutral: u32) -> Option<[u32; 3]> {
    let mut out = [neutral; MAX_AXES];
    let lead = MAX_AXES.checked_sub(axes).filter(|_| axes > 0)?;
    match list.len() {
        0 => {}
        n if n == axes => out.get_mut(lead..)?.copy_from_slice(list),
        _ => return None,
    }
    Some(out)
}

pub(super) fn extents(field: &'static str, values: &[u32], least: u32) -> Result<(), AttrError> {
    match values.iter().find(|v| !(least..=MAX_EXTENT).contains(*v)) {
        Some(v) => Err(AttrError::new(field, u64::from(MAX_EXTENT), u64::from(*v))),
        None => Ok(()),
    }
}

/// An error unless the entries in front of the `axes` last ones are `neutral`.
pub(super) fn neutral(
    what: &'static str,
    values: &[u32; 3],
    axes: usize,
    neutral: u32,
) -> Result<(), ShapeError> {
    match values.iter().take(MAX_AXES.saturating_sub(axes)).find(|v| **v != neutral) {
        Some(v) => Err(ShapeError::new(what, u64::from(neutral), u64::from(*v))),
        None => Ok(()),
    }
}

/// The number of spatial axes of `[N, C, …]`, one to three.
pub(super) fn axes_of(x: &Dims) -> Result<usize, ShapeError> {
    match x.rank().checked_sub(2) {
        Some(axes) if (1..=MAX_AXES).contains(&axes) => Ok(axes),
        _ => Err(ShapeError::rank(MAX_AXES + 2, x.rank())),
    }
}

/// Attributes of `Conv3d`, and of convolutions in integers over one to three axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Conv {
    /// Where the windows are.
    pub spatial: Spatial,
    /// Channels are split into this many independent groups; divides both channel counts.
    pub groups: u32,
    /// [`Activation`](super::Activation) code, applied after the bias; 0 in integers.
    pub activation: u32,
}

impl Attributes for Conv {
    fn check(&self) -> Result<(), AttrError> {
        self.spatial.check()?;
        if self.groups == 0 {
            return Err(AttrError::new("groups", 1, 0));
        }
        super::Activation::from_code(self.activation).map(|_| ())
    }
}

/// Shapes of a convolution over the axes of `x` `[N, C, …]` with `w` `[O, C/groups, …]`: `[N, O, …]`. Input `w_at` is
/// the weights.
pub(super) fn conv_shape(
    alg: &mut dyn DimAlgebra,
    args: &ShapeArgs<'_>,
    a: &Conv,
    w_at: usize,
) -> Result<Dims, ShapeError> {
    let (x, w) = (args.input(0)?, args.input(w_at)?);
    let axes = axes_of(&x)?;
    w.expect_rank(axes + 2)?;
    a.spatial.check_axes(axes)?;
    let g = alg.constant(u64::from(a.groups))?;
    let channels = alg.mul(w.get(1)?, g)?;
    alg.require_equal("channels", x.get(1)?, channels)?;
    let o = w.get(0)?;
    let per_group = alg.div_floor(o, u64::from(a.groups))?;
    let whole = alg.mul(per_group, g)?;
    alg.require_equal("output channels as a multiple of groups", whole, o)?;
    let mut y = Dims::new(&[x.get(0)?, o])?;
    for axis in 0..axes {
        let taps = alg.known(w.get(axis + 2)?).ok_or(ShapeError::new("constant kernel size", 1, 0))?;
        y.push(a.spatial.positions(alg, MAX_AXES - axes + axis, x.get(axis + 2)?, taps)?)?;
    }
    Ok(y)
}

/// An error unless input `i` is absent or a vector with one element for each of `channels`.
pub(super) fn per_channel(
    alg: &mut dyn DimAlgebra,
    args: &ShapeArgs<'_>,
    i: usize,
    channels: Dim,
) -> Result<(), ShapeError> {
    let Some(v) = args.optional(i) else { return Ok(()) };
    v.expect_rank(1)?;
    alg.require_equal("length of a per-channel vector", channels, v.get(0)?)
}
