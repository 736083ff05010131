//! What a reader of the report should know of a clip, as a code and fields. English is made of it at the edge.

use std::fmt;

/// A kind of warning. Whoever raises it declares it as a static: a game, a pass, the conversion.
///
/// ```
/// use anim2gltf::model::{Warning, WarningKind};
///
/// static LATE: WarningKind = WarningKind { code: "mygame-late-keys", text: "{count} keys after {end_s:.2} s" };
/// let warning = Warning::new(&LATE).with("count", 3u32).with("end_s", 1.5);
/// assert_eq!(warning.code(), "mygame-late-keys");
/// assert_eq!(warning.to_string(), "3 keys after 1.50 s");
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct WarningKind {
    /// The name that programs go by: lower case with dashes, never changed once it is out.
    pub code: &'static str,
    /// The sentence, with `{field}` where a field goes. Behind a colon stands how: `{x:.4}` with four decimals,
    /// `{x:08X}` in hex of eight digits, `{list: }` with a space between its parts and not a comma.
    pub text: &'static str,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// A count, an id, a hash.
    Integer(u64),
    /// A measure; its name ends in the unit.
    Number(f64),
    /// A name, or a reason that comes from elsewhere.
    Text(String),
    /// Several names.
    List(Vec<String>),
}

/// One deviation, piece of junk or assumption, of one clip. It prints as a sentence.
#[derive(Debug, Clone, PartialEq)]
pub struct Warning {
    kind: &'static WarningKind,
    fields: Vec<(&'static str, Field)>,
    part: Option<(&'static str, u64)>,
}

impl Warning {
    /// A warning of `kind`, yet without fields.
    pub fn new(kind: &'static WarningKind) -> Self {
        Warning { kind, fields: Vec::new(), part: None }
    }

    /// Sets the field `name` of the kind's text.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Field>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// Says which part of a joined clip it speaks of: `of_part("section", 3)`.
    #[must_use]
    pub fn of_part(mut self, what: &'static str, number: u64) -> Self {
        self.part = Some((what, number));
        self
    }

    /// The code of its kind, by which programs tell warnings apart. `docs/warnings.md` lists all of this crate.
    pub fn code(&self) -> &'static str {
        self.kind.code
    }

    /// Its kind.
    pub fn kind(&self) -> &'static WarningKind {
        self.kind
    }

    /// Whether it is of `kind`.
    pub fn is(&self, kind: &WarningKind) -> bool {
        self.kind.code == kind.code
    }

    /// The fields by name, in the order they were set.
    pub fn fields(&self) -> &[(&'static str, Field)] {
        &self.fields
    }

    /// The part of a joined clip that it speaks of.
    pub fn part(&self) -> Option<(&'static str, u64)> {
        self.part
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.kind.text;
        while let Some((before, (inner, behind))) =
            rest.split_once('{').and_then(|(before, r)| Some((before, r.split_once('}')?)))
        {
            f.write_str(before)?;
            let (name, how) = inner.split_once(':').unwrap_or((inner, ""));
            match self.fields.iter().find(|(n, _)| *n == name) {
                Some((_, field)) => field.write(f, how)?,
                // A slip of whoever raised it, and no reason to lose the rest.
                None => write!(f, "{{{name}}}")?,
            }
            rest = behind;
        }
        f.write_str(rest)?;
        match self.part {
            Some((what, number)) => write!(f, " ({what} {number})"),
            None => Ok(()),
        }
    }
}

impl Field {
    /// Writes it as `how` (what stands behind the colon in a text) says.
    fn write(&self, f: &mut fmt::Formatter<'_>, how: &str) -> fmt::Result {
        match self {
            Field::Integer(n) => match how.strip_suffix('X') {
                Some(width) => write!(f, "{n:0width$X}", width = width.parse().unwrap_or(0)),
                None => write!(f, "{n}"),
            },
            Field::Number(x) => match how.strip_prefix('.').and_then(|digits| digits.parse::<usize>().ok()) {
                Some(digits) => write!(f, "{x:.digits$}"),
                None => write!(f, "{x}"),
            },
            Field::Text(text) => f.write_str(text),
            Field::List(parts) => f.write_str(&parts.join(if how.is_empty() { ", " } else { how })),
        }
    }
}

impl From<u64> for Field {
    fn from(n: u64) -> Self {
        Field::Integer(n)
    }
}

impl From<u32> for Field {
    fn from(n: u32) -> Self {
        Field::Integer(n.into())
    }
}

impl From<u16> for Field {
    fn from(n: u16) -> Self {
        Field::Integer(n.into())
    }
}

impl From<usize> for Field {
    fn from(n: usize) -> Self {
        Field::Integer(n as u64)
    }
}

impl From<f64> for Field {
    fn from(x: f64) -> Self {
        Field::Number(x)
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Field::Text(text)
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Field::Text(text.to_owned())
    }
}

impl From<Vec<String>> for Field {
    fn from(parts: Vec<String>) -> Self {
        Field::List(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::{Warning, WarningKind};

    static ALL: WarningKind = WarningKind {
        code: "test-all",
        text: "{n} of {hash:08X} ({id:X}): {x} or {x:.2} by {name}; {list}; {list: }",
    };

    #[test]
    fn fields_print_as_the_text_says() {
        let warning = Warning::new(&ALL)
            .with("n", 3u16)
            .with("hash", 0xBEEFu32)
            .with("id", 0xBEEFu64)
            .with("x", 1.25)
            .with("name", "who {n}")
            .with("list", vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(warning.to_string(), "3 of 0000BEEF (BEEF): 1.25 or 1.25 by who {n}; a, b; a b");
        assert!(warning.is(&ALL));
        assert_eq!(warning.of_part("section", 2).part(), Some(("section", 2)));
    }

    #[test]
    fn a_missing_field_loses_nothing_else() {
        assert_eq!(
            Warning::new(&ALL).of_part("section", 2).to_string(),
            "{n} of {hash} ({id}): {x} or {x} by {name}; {list}; {list} (section 2)"
        );
    }
}
