//! Resources in files of their own.
//!
//! | Form | Starts with | Proof | Source |
//! |---|---|---|---|
//! | with the name header | an object record ([`crate::games::anvil::container::walk`]) | sizes add up to the file, the class is repeated | anvil.md 2.5 |
//! | as AnvilToolkit extracts (`12_-_Name.Animation`), 64-bit | file header (u8 0, or u8 1 .. rows), u64 ClassID, u32 class | the class is the file's extension or a known one | anvil.md 6 |
//! | the same, 32-bit | u8 0 and the body, or u8 1, `02 00 00`, table and body | as above | taken from the 32-bit record |
//!
//! A file without the name header is named by its stem, unchanged.

use crate::error::{Error, Result};
use crate::games::anvil::container::object::{Generation, Object, class};
use crate::games::anvil::container::walk;
use crate::games::anvil::container::walk::{Record, Visit, own_id};

/// Limit of a loose file's size, bytes.
pub const MAX_SIZE: u64 = 1 << 30;

/// A file as AnvilToolkit extracts it, by the class word behind its file header.
struct Toolkit<'a> {
    generation: Generation,
    class: u32,
    id: u64,
    header: &'a [u8],
    body: usize,
}

/// Whether `class` is one that the readers know, or the CRC-32 of the file's `extension`.
fn expected_class(class: u32, extension: &str) -> bool {
    class::name(class).is_some() || crc32fast::hash(extension.as_bytes()) == class
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> Toolkit<'a> {
    fn read(bytes: &'a [u8], extension: &str) -> Option<Self> {
        let header = match bytes.first()? {
            0 => 1,
            1 => (word(bytes, 4)? as usize).checked_mul(12)?.checked_add(8)?,
            _ => return None,
        };
        if let Some(class) = word(bytes, header.checked_add(8)?).filter(|&c| expected_class(c, extension)) {
            let id = u64::from_le_bytes(*bytes.get(header..)?.first_chunk()?);
            return Some(Toolkit {
                generation: Generation::Ids64,
                class,
                id,
                header: bytes.get(..header)?,
                body: header + 12,
            });
        }
        let body = bytes.get(header..)?;
        [word(body, 5), word(body, 4)].into_iter().flatten().find_map(|class| match own_id(body, class) {
            (Some(id), true) if expected_class(class, extension) => {
                Some(Toolkit { generation: Generation::Ids32, class, id, header: &[], body: 1 })
            }
            _ => None,
        })
    }
}

/// Whether `prefix`, the start of a file of this `extension`, looks like a loose resource.
pub fn probe(prefix: &[u8], extension: &str) -> bool {
    word(prefix, 0).is_some_and(|class| expected_class(class, extension))
        || Toolkit::read(prefix, extension).is_some()
}

/// Visits the objects of a loose file: `bytes` is all of it, `stem` and `extension` are of its name. Returns the form
/// in which they were read.
pub fn for_each_object(bytes: &[u8], stem: &str, extension: &str, visit: Visit<'_>) -> Result<&'static str> {
    let named = word(bytes, 0).is_some_and(|class| expected_class(class, extension));
    if !named && let Some(toolkit) = Toolkit::read(bytes, extension) {
        let form = match toolkit.generation {
            Generation::Ids64 => "a resource of 64-bit ids without its name header",
            Generation::Ids32 => "an object of 32-bit ids without its name header",
        };
        visit(Ok(Object {
            generation: toolkit.generation,
            class: toolkit.class,
            id: toolkit.id,
            name: stem.to_owned(),
            header: toolkit.header,
            body: &bytes[toolkit.body..],
            body_offset: toolkit.body as u64,
        }));
        return Ok(form);
    }
    if !named
        && Record::read(bytes, 0, Generation::Ids64).is_err()
        && Record::read(bytes, 0, Generation::Ids32).is_err()
    {
        let start = crate::io::hex::spaced(&bytes[..bytes.len().min(8)]);
        return Err(Error::malformed(
            0,
            format_args!("{} bytes that start with {start}", bytes.len()),
            "an Anvil resource: object header, or file header and ClassID",
        ));
    }
    let mut generation = Generation::Ids64;
    walk::records(bytes, Generation::Ids64, Some(stem), &mut |object| {
        if let Ok(object) = &object {
            generation = object.generation;
        }
        visit(object);
    })?;
    Ok(match generation {
        Generation::Ids64 => "resources of 64-bit ids with their name headers",
        Generation::Ids32 => "objects of 32-bit ids with their name headers",
    })
}
