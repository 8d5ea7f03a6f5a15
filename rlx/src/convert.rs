//! Element types, and bytes of one type from bytes of another.

use crate::error::Error;
use rlx_ir::DType;
use std::borrow::Cow;

/// The element type of the same meaning; `None` for complex numbers, which no op of the table takes.
pub(crate) fn dtype(t: DType) -> Option<serinette::DType> {
    Some(match t {
        DType::F32 => serinette::DType::F32,
        DType::F16 => serinette::DType::F16,
        DType::BF16 => serinette::DType::BF16,
        DType::F64 => serinette::DType::F64,
        DType::I8 => serinette::DType::I8,
        DType::I16 => serinette::DType::I16,
        DType::I32 => serinette::DType::I32,
        DType::I64 => serinette::DType::I64,
        DType::U8 => serinette::DType::U8,
        DType::U32 => serinette::DType::U32,
        DType::Bool => serinette::DType::Bool,
        DType::C64 | DType::C128 => return None,
    })
}

/// Little-endian bytes of `from` as little-endian bytes of `to`; borrowed where the types are the same.
///
/// Numbers go by way of f64, so each is rounded at most once: floats to the nearest, ties to even; floats to
/// integers toward zero, saturating, NaN gives 0; anything that is not zero to bool is true. Only 64-bit integers
/// beyond 2^53 that change their type are rounded before.
pub(crate) fn convert<'a>(
    name: &str,
    data: &'a [u8],
    from: DType,
    to: DType,
) -> Result<Cow<'a, [u8]>, Error> {
    if from == to {
        return Ok(Cow::Borrowed(data));
    }
    let numbers = read(data, from).ok_or(Error::ElementType { name: name.into(), dtype: from })?;
    let bytes = write(&numbers, to).ok_or(Error::ElementType { name: name.into(), dtype: to })?;
    Ok(Cow::Owned(bytes))
}

/// The little-endian bytes of numbers.
pub(crate) fn f32_bytes(data: &[f32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        Cow::Borrowed(bytemuck::cast_slice(data))
    } else {
        Cow::Owned(data.iter().flat_map(|x| x.to_le_bytes()).collect())
    }
}

/// The numbers of little-endian bytes as f32: RLX's view of every element type in `run`.
pub(crate) fn to_f32(name: &str, data: &[u8], from: DType) -> Result<Vec<f32>, Error> {
    let bytes = convert(name, data, from, DType::F32)?;
    Ok(bytes.as_chunks().0.iter().map(|c| f32::from_le_bytes(*c)).collect())
}

fn read(data: &[u8], from: DType) -> Option<Vec<f64>> {
    fn each<const N: usize>(data: &[u8], f: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        data.as_chunks().0.iter().map(|c| f(*c)).collect()
    }
    Some(match from {
        DType::F32 => each(data, |c| f64::from(f32::from_le_bytes(c))),
        DType::F64 => each(data, f64::from_le_bytes),
        DType::F16 => each(data, |c| half::f16::from_le_bytes(c).to_f64()),
        DType::BF16 => each(data, |c| half::bf16::from_le_bytes(c).to_f64()),
        DType::I8 => each(data, |c| f64::from(i8::from_le_bytes(c))),
        DType::I16 => each(data, |c| f64::from(i16::from_le_bytes(c))),
        DType::I32 => each(data, |c| f64::from(i32::from_le_bytes(c))),
        DType::I64 => each(data, |c| i64::from_le_bytes(c) as f64),
        DType::U8 => each(data, |[b]: [u8; 1]| f64::from(b)),
        DType::U32 => each(data, |c| f64::from(u32::from_le_bytes(c))),
        DType::Bool => each(data, |[b]: [u8; 1]| f64::from(u8::from(b != 0))),
        DType::C64 | DType::C128 => return None,
    })
}

fn write(numbers: &[f64], to: DType) -> Option<Vec<u8>> {
    fn each<const N: usize>(numbers: &[f64], f: impl Fn(f64) -> [u8; N]) -> Vec<u8> {
        numbers.iter().flat_map(|x| f(*x)).collect()
    }
    Some(match to {
        DType::F32 => each(numbers, |x| (x as f32).to_le_bytes()),
        DType::F64 => each(numbers, f64::to_le_bytes),
        DType::F16 => each(numbers, |x| half::f16::from_f32(to_odd(x)).to_le_bytes()),
        DType::BF16 => each(numbers, |x| half::bf16::from_f32(to_odd(x)).to_le_bytes()),
        DType::I8 => each(numbers, |x| (x as i8).to_le_bytes()),
        DType::I16 => each(numbers, |x| (x as i16).to_le_bytes()),
        DType::I32 => each(numbers, |x| (x as i32).to_le_bytes()),
        DType::I64 => each(numbers, |x| (x as i64).to_le_bytes()),
        DType::U8 => each(numbers, |x| [x as u8]),
        DType::U32 => each(numbers, |x| (x as u32).to_le_bytes()),
        DType::Bool => each(numbers, |x| [u8::from(x != 0.0)]),
        DType::C64 | DType::C128 => return None,
    })
}

/// `x` in f32, rounded to odd: a number that f32 cannot hold becomes its neighbour with an odd last bit. Rounding
/// that to a 16-bit float gives what rounding `x` itself would, because f32 has more than two bits to spare: the odd
/// bit says that something was cut off, and no tie appears where there was none.
fn to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    if nearest.is_nan() || f64::from(nearest) == x {
        return nearest;
    }
    // The magnitude grows with the bits, so the neighbour towards zero is one less.
    let away = f64::from(nearest).abs() > x.abs();
    f32::from_bits((nearest.to_bits() - u32::from(away)) | 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_survive_the_way_there_and_back() {
        let values = [0.0f32, -1.0, 3.0, 100.0, 1.0];
        for t in [DType::F16, DType::BF16, DType::F64, DType::I8, DType::I16, DType::I32, DType::I64] {
            let there = convert("x", &f32_bytes(&values), DType::F32, t).unwrap().into_owned();
            assert_eq!(there.len(), values.len() * dtype(t).unwrap().size());
            assert_eq!(to_f32("x", &there, t).unwrap(), values, "{t:?}");
        }
    }

    #[test]
    fn narrowing_rounds_once_and_saturates() {
        let half = |x: f64| {
            let bytes = convert("x", &x.to_le_bytes(), DType::F64, DType::F16).unwrap().into_owned();
            half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f64()
        };
        // Halfway between two f16, and beside that by a bit that f32 cannot hold, which would round to even, down.
        let (tie, bit, up) = (1.0 + 2f64.powi(-11), 2f64.powi(-40), 1.0 + 2f64.powi(-10));
        assert_eq!((half(tie), half(tie + bit), half(tie - bit)), (1.0, up, 1.0));
        assert_eq!((half(-tie), half(-tie - bit)), (-1.0, -up));
        // A tie that goes up to even; the greatest; the least.
        assert_eq!((half(2051.0), half(2051.0 - 1e-9), half(65_520.0)), (2052.0, 2050.0, f64::INFINITY));
        assert_eq!((half(65_520.0 - 1e-9), half(1e300), half(-1e-300)), (65_504.0, f64::INFINITY, 0.0));
        assert_eq!(half(2f64.powi(-25) + 2f64.powi(-60)), 2f64.powi(-24));
        let wild = [f32::NAN, f32::INFINITY, -1e30, -2.9];
        let i8s = convert("x", &f32_bytes(&wild), DType::F32, DType::I8).unwrap().into_owned();
        assert_eq!(bytemuck::cast_slice::<u8, i8>(&i8s), [0, 127, -128, -2]);
        let wild = f32_bytes(&[0.0, -0.0, f32::NAN, 0.1]);
        let bools = convert("x", &wild, DType::F32, DType::Bool).unwrap();
        assert_eq!(*bools, [0, 0, 1, 1]);
        assert!(matches!(convert("x", &[0; 8], DType::C64, DType::F32), Err(Error::ElementType { .. })));
    }
}
