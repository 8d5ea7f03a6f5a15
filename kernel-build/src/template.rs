//! From a template file to the kernels that it describes.
//!
//! A template is WGSL with directives, lines that begin with `//#`:
//!
//! | directive | meaning |
//! |---|---|
//! | `kernel NAME KEY=a\|b …` | begins a kernel; with several values there is one kernel for each combination, `NAME` contains the keys that differ. Consecutive `kernel` lines share one body |
//! | `params Struct field field[8] …` | the parameter words in order; the WGSL sees `p.field`, `p.field0` … |
//! | `include NAME` | the text of `snippets/NAME.wgsl`, once |
//! | `interface gate` | the buffers of a gate instead of those of a computation |
//! | `element arena TYPE` | element type of a binding (`arena`, `weights`, `control`) where it is not a word |
//! | `capability NAME …` | SPIR-V capabilities needed besides `Shader` |
//! | `index` | the kernel has an operand whose contents are positions |
//! | `exact` | sums and products must not be contracted or reordered |
//! | `if KEY == a`, `if KEY != a`, `if KEY in a\|b`, `else`, `end` | conditional lines |
//! | `for KEY in a..b`, `end` | repeated lines, `b` excluded |
//!
//! Everywhere `${KEY}` is the value of a key and `${…}` an integer expression over keys. Lines before the first
//! `kernel` belong to every kernel of the file.

use crate::error::{Error, ErrorKind, Place};
use crate::expr::{Env, integer, is_name, substitute};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Which buffers a kernel binds; the two of the dispatch contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// Arena, weights, control.
    #[default]
    Compute,
    /// Arena, indirect buffer, control.
    Gate,
}

/// A parameter field: its name, and how many words where it is an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Words; `None` for a plain one.
    pub array: Option<u32>,
}

/// The parameter words of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// Name of the generated struct.
    pub name: String,
    /// Fields in order.
    pub fields: Vec<Field>,
}

impl Params {
    /// Total words.
    pub fn words(&self) -> u32 {
        self.fields.iter().fold(0, |n: u32, f| n.saturating_add(f.array.unwrap_or(1)))
    }
}

/// A kernel after expansion.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Name, unique in the library.
    pub name: String,
    /// Where its `kernel` line is.
    pub place: Place,
    /// WGSL without the declarations of bindings and parameters.
    pub body: String,
    /// Where each line of `body` comes from.
    pub lines: Vec<Place>,
    /// Parameters.
    pub params: Params,
    /// Buffers.
    pub interface: Interface,
    /// Element types of the bindings that are not plain words.
    pub elements: Vec<(String, String)>,
    /// Capabilities besides `Shader`.
    pub capabilities: BTreeSet<String>,
    /// Has an operand that holds positions.
    pub index: bool,
    /// Arithmetic must not be contracted.
    pub exact: bool,
    /// Names of the included snippets.
    pub includes: BTreeSet<String>,
}

/// Finds the text of a snippet.
pub type Snippets<'a> = &'a dyn Fn(&str) -> Option<(PathBuf, String)>;

#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn directive(&self) -> Option<&'a str> {
        self.text.trim().strip_prefix("//#").map(str::trim)
    }
    fn word(&self) -> &'a str {
        self.directive().and_then(|d| d.split_whitespace().next()).unwrap_or("")
    }
}

/// Expands the kernels of one template file, in the order of their `kernel` lines.
pub fn expand(file: &Path, text: &str, snippets: Snippets<'_>) -> Result<Vec<Kernel>, Error> {
    let lines: Vec<Line<'_>> =
        text.lines().enumerate().map(|(i, text)| Line { number: i + 1, text }).collect();
    let first = lines.iter().position(|l| l.word() == "kernel").unwrap_or(lines.len());
    let (prelude, mut rest) = lines.split_at(first);
    let mut kernels = Vec::new();
    while !rest.is_empty() {
        let body =
            rest.iter().position(|l| l.word() != "kernel" && !l.text.trim().is_empty()).unwrap_or(rest.len());
        let (heads, tail) = rest.split_at(body);
        let end = tail.iter().position(|l| l.word() == "kernel").unwrap_or(tail.len());
        let (body, tail) = tail.split_at(end);
        for head in heads.iter().filter(|l| l.word() == "kernel") {
            variants(file, *head, |env, name| {
                let place = Place::new(file, head.number);
                let mut e = Expander { kernel: Kernel::new(name, place), snippets, env };
                e.block(file, prelude).and_then(|()| e.block(file, body)).map_err(|x| x.of_kernel(name))?;
                kernels.push(e.kernel);
                Ok(())
            })?;
        }
        rest = tail;
    }
    Ok(kernels)
}

/// Calls `each` with the keys and the name of every combination of a `kernel` line.
fn variants(
    file: &Path,
    head: Line<'_>,
    mut each: impl FnMut(Env, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    let fail = |kind, text: String| Error::new(kind, Place::new(file, head.number), text);
    let mut words = head.directive().unwrap_or("").split_whitespace().skip(1);
    let pattern = words.next().ok_or_else(|| fail(ErrorKind::Directive, "`kernel` needs a name".into()))?;
    let mut envs = vec![Env::new()];
    for word in words {
        let (key, values) = word
            .split_once('=')
            .filter(|(k, v)| is_name(k) && !v.is_empty())
            .ok_or_else(|| fail(ErrorKind::Directive, format!("`{word}` is not KEY=value")))?;
        envs = envs
            .iter()
            .flat_map(|env| {
                values.split('|').map(|v| {
                    let mut env = env.clone();
                    env.insert(key.to_string(), v.to_string());
                    env
                })
            })
            .collect();
    }
    for env in envs {
        let name = substitute(pattern, &env).map_err(|m| fail(ErrorKind::Expression, m))?;
        if !is_name(&name) {
            return Err(fail(ErrorKind::Directive, format!("`{name}` cannot name a kernel")));
        }
        each(env, &name)?;
    }
    Ok(())
}

impl Kernel {
    fn new(name: &str, place: Place) -> Kernel {
        Kernel {
            name: name.to_string(),
            place,
            body: String::new(),
            lines: Vec::new(),
            params: Params::default(),
            interface: Interface::Compute,
            elements: Vec::new(),
            capabilities: BTreeSet::new(),
            index: false,
            exact: false,
            includes: BTreeSet::new(),
        }
    }
}

struct Expander<'a> {
    kernel: Kernel,
    snippets: Snippets<'a>,
    env: Env,
}

impl Expander<'_> {
    fn block(&mut self, file: &Path, lines: &[Line<'_>]) -> Result<(), Error> {
        let mut rest = lines;
        while let Some((line, after)) = rest.split_first() {
            rest = after;
            let place = Place::new(file, line.number);
            let value = |text: &str| {
                substitute(text, &self.env).map_err(|m| Error::new(ErrorKind::Expression, place.clone(), m))
            };
            let Some(directive) = line.directive() else {
                let text = value(line.text)?;
                self.kernel.body += &text;
                self.kernel.body.push('\n');
                self.kernel.lines.push(place);
                continue;
            };
            let directive = value(directive)?;
            let (word, args) = directive.split_once(char::is_whitespace).unwrap_or((&directive, ""));
            let args = args.trim();
            match word {
                "if" | "for" => {
                    let (inner, other, after) = matching(rest).ok_or_else(|| {
                        Error::new(ErrorKind::Directive, place.clone(), format!("`{word}` without `end`"))
                    })?;
                    rest = after;
                    if word == "if" {
                        let yes = self.condition(args, &place)?;
                        self.block(file, if yes { inner } else { other })?;
                    } else {
                        self.repeat(file, inner, args, &place)?;
                    }
                }
                "else" | "end" => {
                    return Err(Error::new(ErrorKind::Directive, place, format!("`{word}` without `if`")));
                }
                "include" => self.include(args, &place)?,
                _ => self.declare(word, args, &place)?,
            }
        }
        Ok(())
    }

    fn condition(&self, text: &str, place: &Place) -> Result<bool, Error> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [key, op, want] = words[..] else {
            return Err(Error::new(
                ErrorKind::Directive,
                place.clone(),
                format!("`if {text}` is not `KEY == value`, `KEY != value` or `KEY in a|b`"),
            ));
        };
        let found = self.env.get(key).ok_or_else(|| {
            Error::new(ErrorKind::Expression, place.clone(), format!("`{key}` has no value here"))
        })?;
        match op {
            "==" => Ok(found == want),
            "!=" => Ok(found != want),
            "in" => Ok(want.split('|').any(|w| w == found)),
            _ => Err(Error::new(ErrorKind::Directive, place.clone(), format!("`{op}` is not a comparison"))),
        }
    }

    fn repeat(&mut self, file: &Path, body: &[Line<'_>], args: &str, place: &Place) -> Result<(), Error> {
        let fail = |kind, text: String| Error::new(kind, place.clone(), text);
        let parts = args.split_once(" in ").and_then(|(k, r)| Some((k.trim(), r.split_once("..")?)));
        let Some((key, (from, to))) = parts.filter(|(k, _)| is_name(k)) else {
            return Err(fail(ErrorKind::Directive, format!("`for {args}` is not `for KEY in a..b`")));
        };
        let bound = |text| integer(text, &self.env).map_err(|m| fail(ErrorKind::Expression, m));
        let (from, to) = (bound(from)?, bound(to)?);
        if to.saturating_sub(from) > 4096 {
            return Err(fail(ErrorKind::Directive, format!("`for {args}` repeats more than 4096 times")));
        }
        let outer = self.env.get(key).cloned();
        for i in from..to {
            self.env.insert(key.to_string(), i.to_string());
            self.block(file, body)?;
        }
        match outer {
            Some(v) => self.env.insert(key.to_string(), v),
            None => self.env.remove(key),
        };
        Ok(())
    }

    fn include(&mut self, name: &str, place: &Place) -> Result<(), Error> {
        if !self.kernel.includes.insert(name.to_string()) {
            return Ok(());
        }
        let (file, text) = (self.snippets)(name).ok_or_else(|| {
            Error::new(ErrorKind::Include, place.clone(), format!("there is no snippet `{name}`"))
        })?;
        let lines: Vec<Line<'_>> =
            text.lines().enumerate().map(|(i, text)| Line { number: i + 1, text }).collect();
        self.block(&file, &lines)
    }

    fn declare(&mut self, word: &str, args: &str, place: &Place) -> Result<(), Error> {
        let fail = |text: String| Err(Error::new(ErrorKind::Directive, place.clone(), text));
        match (word, args) {
            ("params", _) => {
                if !self.kernel.params.name.is_empty() {
                    return fail("a second `params`".into());
                }
                match params(args) {
                    Ok(p) => self.kernel.params = p,
                    Err(text) => return fail(text),
                }
            }
            ("interface", "compute") => self.kernel.interface = Interface::Compute,
            ("interface", "gate") => self.kernel.interface = Interface::Gate,
            ("element", _) => match args.split_once(char::is_whitespace) {
                Some((binding @ ("arena" | "weights" | "control"), t)) => {
                    self.kernel.elements.push((binding.to_string(), t.trim().to_string()));
                }
                _ => return fail(format!("`element {args}` is not `element arena|weights|control TYPE`")),
            },
            ("capability", _) if !args.is_empty() => {
                self.kernel.capabilities.extend(args.split_whitespace().map(str::to_string));
            }
            ("index", "") => self.kernel.index = true,
            ("exact", "") => self.kernel.exact = true,
            _ => return fail(format!("`{word} {args}` is not a directive")),
        }
        Ok(())
    }
}

/// Splits the lines after an `if` or `for` into its body, its `else` part and what follows its `end`.
type Parts<'l, 'a> = (&'l [Line<'a>], &'l [Line<'a>], &'l [Line<'a>]);

fn matching<'l, 'a>(lines: &'l [Line<'a>]) -> Option<Parts<'l, 'a>> {
    let (mut depth, mut middle) = (0usize, None);
    for (i, line) in lines.iter().enumerate() {
        match line.word() {
            "if" | "for" => depth += 1,
            "else" if depth == 0 => middle = Some(i),
            "end" if depth == 0 => {
                let body = lines.get(..middle.unwrap_or(i))?;
                let other = middle.map_or(Some(&[][..]), |m| lines.get(m + 1..i))?;
                return Some((body, other, lines.get(i + 1..)?));
            }
            "end" => depth -= 1,
            _ => {}
        }
    }
    None
}

fn params(args: &str) -> Result<Params, String> {
    let mut words = args.split_whitespace();
    let name = words.next().filter(|w| is_name(w)).ok_or("`params` needs the name of a struct")?;
    let mut p = Params { name: name.to_string(), fields: Vec::new() };
    for word in words {
        let (name, array) = match word.strip_suffix(']').and_then(|w| w.split_once('[')) {
            Some((name, n)) => (name, Some(n.parse().map_err(|_| format!("`{word}` has no length"))?)),
            None => (word, None),
        };
        if !is_name(name) {
            return Err(format!("`{word}` cannot name a parameter"));
        }
        if p.fields.iter().any(|f| f.name == name) {
            return Err(format!("parameter `{name}` is there twice"));
        }
        p.fields.push(Field { name: name.to_string(), array });
    }
    Ok(p)
}
