//! The one error type: what kind, in which file and entry, at which offset, what was found and what was expected.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of everything in this library that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something failed: tells a damaged input from one that is whole but not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input contradicts its format.
    Malformed,
    /// The input is of a known kind that is not decoded (encrypted, another codec, another version).
    Unsupported,
    /// A size or count that the file cannot justify, refused before anything is allocated for it.
    Limit,
    /// The operating system refused to read or write.
    Io,
    /// The command was given something that makes no sense.
    Usage,
    /// A fault of this program, and none of the input.
    Internal,
}

/// An error with its place. Built where the fault is seen, and given its entry and file on the way up.
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    file: Option<PathBuf>,
    entry: Option<String>,
    offset: Option<u64>,
    message: String,
    io: Option<Arc<std::io::Error>>,
}

impl Error {
    /// An error of `kind` with the whole `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            file: None,
            entry: None,
            offset: None,
            message: message.into(),
            io: None,
        }))
    }

    /// Malformed input: what was `found` at `offset` and what was `expected` there.
    #[cold]
    pub fn malformed(offset: u64, found: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Error::new(ErrorKind::Malformed, format!("found {found}, expected {expected}")).at(offset)
    }

    /// Whole but not decoded here; `message` says what it is and the way out.
    #[cold]
    pub fn unsupported(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Unsupported, message)
    }

    /// A count or size at `offset` that the file cannot justify.
    #[cold]
    pub fn limit(offset: u64, found: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Error::new(ErrorKind::Limit, format!("found {found}, expected {expected}")).at(offset)
    }

    /// An operating-system error while doing `what` (for example "cannot open").
    #[cold]
    pub fn io(what: &str, error: std::io::Error) -> Self {
        let mut e = Error::new(ErrorKind::Io, format!("{what}: {error}"));
        e.0.io = Some(Arc::new(error));
        e
    }

    /// A wrong use of the command.
    #[cold]
    pub fn usage(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Usage, message)
    }

    /// A fault of this program; `message` is what its panic said.
    #[cold]
    pub fn internal(message: impl fmt::Display) -> Self {
        Error::new(ErrorKind::Internal, format!("a fault of anim2gltf, please report it: {message}"))
    }

    /// Sets the byte offset (within the entry, or within the file where there is no entry).
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// Sets the byte offset, unless one is known already.
    #[must_use]
    pub fn or_at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Adds the name of the archive entry, clip or object. An inner entry is kept: `outer > inner`.
    #[must_use]
    pub fn in_entry(mut self, entry: impl Into<String>) -> Self {
        let entry = entry.into();
        self.0.entry = Some(match self.0.entry.take() {
            Some(inner) => format!("{entry} > {inner}"),
            None => entry,
        });
        self
    }

    /// Adds the file, unless one is known already.
    #[must_use]
    pub fn in_file(mut self, file: impl AsRef<Path>) -> Self {
        self.0.file.get_or_insert_with(|| file.as_ref().to_owned());
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The byte offset of the fault, where one is known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The file of the fault, where one is known.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The archive entry, clip or object of the fault, where one is known.
    pub fn entry(&self) -> Option<&str> {
        self.0.entry.as_deref()
    }

    /// The message without its place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The operating-system error below, if that is what it was.
    pub fn io_error(&self) -> Option<&std::io::Error> {
        self.0.io.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.0.file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(entry) = &self.0.entry {
            write!(f, "{entry}: ")?;
        }
        if let Some(offset) = self.0.offset {
            write!(f, "at offset 0x{offset:X}: ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.io.as_deref().map(|e| e as _)
    }
}
