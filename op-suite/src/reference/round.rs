//! Exact rounding of quotients.

/// `numerator / denominator` (above 0) rounded half to even.
pub(crate) fn quotient_half_even(numerator: i128, denominator: i128) -> i128 {
    let floor = numerator.div_euclid(denominator);
    let rest = numerator - floor * denominator;
    match (2 * rest).cmp(&denominator) {
        std::cmp::Ordering::Less => floor,
        std::cmp::Ordering::Greater => floor + 1,
        std::cmp::Ordering::Equal => floor + floor.rem_euclid(2),
    }
}

/// A float rounded half to even to a whole number.
pub(crate) fn half_even(x: f64) -> f64 {
    let floor = x.floor();
    let rest = x - floor;
    if rest < 0.5 || (rest == 0.5 && floor % 2.0 == 0.0) { floor } else { floor + 1.0 }
}

/// The f32 nearest to a whole number, ties to the even one, by comparing exact distances. `|x| < 2^100`.
pub(crate) fn f32_from_integer(x: i128) -> f32 {
    let guess = x as f64 as f32;
    let exact = |f: f32| f as i128;
    [guess.next_down(), guess, guess.next_up()]
        .into_iter()
        .min_by_key(|f| ((x - exact(*f)).abs(), if f.fract() == 0.0 { f.to_bits() & 1 } else { 2 }))
        .unwrap_or(guess)
}
