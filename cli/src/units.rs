//! Numbers for people.

use std::time::Duration;

/// Milliseconds.
pub fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

/// A count with a space between thousands.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(d);
    }
    text
}

/// Bytes: exact, with a rounded figure from 10 KiB on.
pub fn bytes(n: u64) -> String {
    let exact = format!("{} bytes", count(n));
    for (unit, size) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if n >= size.max(10 << 10) {
            return format!("{exact} ({:.1} {unit})", n as f64 / size as f64);
        }
    }
    exact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(bytes(999), "999 bytes");
        assert_eq!(bytes(9000), "9 000 bytes");
        assert_eq!(bytes(1 << 20), "1 048 576 bytes (1.0 MiB)");
        assert_eq!(bytes(15_680), "15 680 bytes (15.3 KiB)");
    }
}
