//! Values of template keys and the integer expressions over them.

use std::collections::BTreeMap;

/// The keys that are set while a kernel is expanded.
pub(crate) type Env = BTreeMap<String, String>;

/// Replaces every `${…}` of `text`. A lone key gives its text; anything else is an integer expression.
pub(crate) fn substitute(text: &str, env: &Env) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, tail) = rest.split_at(start);
        let Some(end) = tail.find('}') else {
            return Err("`${` without `}`".to_string());
        };
        let (inside, after) = (tail.get(2..end).unwrap_or("").trim(), tail.get(end + 1..).unwrap_or(""));
        out += before;
        if is_name(inside) {
            out += env.get(inside).ok_or_else(|| format!("`{inside}` has no value here"))?;
        } else {
            out += &integer(inside, env)?.to_string();
        }
        rest = after;
    }
    out += rest;
    Ok(out)
}

/// Whether `s` can name a key.
pub(crate) fn is_name(s: &str) -> bool {
    let mut chars = s.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The value of an expression of integers, keys, `+ - * / %` and parentheses.
pub(crate) fn integer(text: &str, env: &Env) -> Result<i64, String> {
    let mut p = Parser { rest: text, env };
    let v = p.sum()?;
    p.skip();
    if p.rest.is_empty() { Ok(v) } else { Err(format!("`{}` is left over in `{text}`", p.rest)) }
}

struct Parser<'a> {
    rest: &'a str,
    env: &'a Env,
}

impl Parser<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, any: &[char]) -> Option<char> {
        self.skip();
        let c = self.rest.chars().next().filter(|c| any.contains(c))?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or("");
        Some(c)
    }

    fn sum(&mut self) -> Result<i64, String> {
        let mut v = self.product()?;
        while let Some(op) = self.take(&['+', '-']) {
            let w = self.product()?;
            v = if op == '+' { v.checked_add(w) } else { v.checked_sub(w) }
                .ok_or("the value is too large")?;
        }
        Ok(v)
    }

    fn product(&mut self) -> Result<i64, String> {
        let mut v = self.atom()?;
        while let Some(op) = self.take(&['*', '/', '%']) {
            let w = self.atom()?;
            v = match op {
                '*' => v.checked_mul(w),
                '/' => v.checked_div(w),
                _ => v.checked_rem(w),
            }
            .ok_or("a division by zero, or the value is too large")?;
        }
        Ok(v)
    }

    fn atom(&mut self) -> Result<i64, String> {
        if self.take(&['(']).is_some() {
            let v = self.sum()?;
            return self.take(&[')']).map(|_| v).ok_or_else(|| "`)` is missing".to_string());
        }
        self.skip();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        let text = if is_name(word) {
            self.env.get(word).ok_or_else(|| format!("`{word}` has no value here"))?.as_str()
        } else {
            word
        };
        text.parse().map_err(|_| format!("`{text}` is not an integer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env() -> Env {
        [("TILE", "32"), ("T", "f16"), ("I", "3")].map(|(k, v)| (k.to_string(), v.to_string())).into()
    }

    #[test]
    fn keys_and_expressions_are_replaced() {
        let e = env();
        assert_eq!(substitute("x_${T} ${TILE/4}u a${I*4 + 1} $ {}", &e).as_deref(), Ok("x_f16 8u a13 $ {}"));
        assert_eq!(integer("(TILE - 2) % 7 * 10", &e), Ok(20));
    }

    #[test]
    fn bad_expressions_say_why() {
        let e = env();
        for (text, part) in [
            ("${NO}", "`NO` has no value"),
            ("${T + 1}", "`f16` is not an integer"),
            ("${1 / 0}", "division by zero"),
            ("${(1 + 2}", "`)` is missing"),
            ("${1 2}", "left over"),
            ("${I", "without `}`"),
            ("${9223372036854775807 + 1}", "too large"),
        ] {
            let got = substitute(text, &e);
            assert!(got.as_ref().is_err_and(|m| m.contains(part)), "{text}: {got:?}");
        }
    }
}
