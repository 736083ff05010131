//! From unpacked containers to objects.
//!
//! A payload holds a directory container and an object container, possibly several such pairs (docs/formats/anvil.md,
//! section 2.5); the directory's sizes cover the objects one after another. Directory forms:
//!
//! | Ids | Form | Source |
//! |---|---|---|
//! | 64-bit | u16 n, n × {u64 id, u32 bytes, u16 e, e × u16} | anvil.md 2.5, A (Riders Republic: D) |
//! | 32-bit | u16 n, n × {u32 id, u32 bytes} | anvil.md 2.5 |
//! | R6 | i32 n, n × {u64 id, i32 bytes} | anvil.md 2.5, B |
//!
//! A form counts only if it reads to the directory's exact end and its sizes add up to the containers that follow.
//! A container that is no directory holds object records back to back, usually one.
//!
//! Object record with 64-bit ids (docs/formats/anvil.md, section 2.5.1):
//!
//! | Offset | Size | Field | Unit | Source |
//! |---|---|---|---|---|
//! | 0x0 | 4 | u32 class | | anvil.md 2.5.1 |
//! | 0x4 | 4 | u32 payload length P | bytes | anvil.md 2.5.1 |
//! | 0x8 | 4 | u32 name length N | bytes | anvil.md 2.5.1 |
//! | 0xC | N | name | | anvil.md 2.5.1 |
//! | 12+N | H | file header: u8 0, or u8 1, 3 bytes, u32 R, R rows of 12 | | anvil.md 2.5.1 |
//! | 12+N+H | 8 | u64 ClassID | | anvil.md 2.5.1 |
//! | 20+N+H | 4 | u32 class again | | anvil.md 2.5.1 |
//! | 24+N+H | P−12 | body | | anvil.md 2.5.1 |
//!
//! Object record with 32-bit ids (docs/formats/anvil.md, section 2.5.2):
//!
//! | Offset | Size | Field | Unit | Source |
//! |---|---|---|---|---|
//! | 0x0 | 4 | u32 class | | anvil.md 2.5.2 |
//! | 0x4 | 4 | u32 declared size P | bytes | anvil.md 2.5.2 |
//! | 0x8 | 4 | u32 name length L | bytes | anvil.md 2.5.2 |
//! | 0xC | L | name | | anvil.md 2.5.2 |
//! | 12+L | 1 | u8 0; on block-allocator objects 1 | | anvil.md 2.5.2 |
//! | 13+L | P, or 7 + 12k + P | body; on block-allocator objects it starts with `02 00 00`, u32 k and k rows of 12 | | anvil.md 2.5.2 |
//!
//! The body of a managed class starts with u8 managed, u32 id, u32 class; that of another class with u32 id, u32 class.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::games::anvil::container::data::Unpacked;
use crate::games::anvil::container::forge::{Entry, latin};
use crate::games::anvil::container::object::{Generation, Object, class};
use crate::io::bytes::Cursor;

/// What receives the objects, in stored order. An error is one damaged object; the others still follow.
pub type Visit<'v> = &'v mut dyn FnMut(Result<Object<'_>>);

/// What is known of a payload before it is walked.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The entry that holds it.
    pub entry: Option<&'a Entry>,
    /// The generation to try first: of the archive's version.
    pub likely: Generation,
}

/// What a walk reports beside the objects.
#[derive(Debug, Default)]
pub struct WalkReport {
    /// What was assumed, and what contradicts docs/formats.
    pub notes: Vec<String>,
    /// The forms in which directories were read.
    pub directories: BTreeSet<&'static str>,
}

/// Calls `visit` with every object of an unpacked payload. `Err` where nothing in it reads as an object.
pub fn for_each_object(
    unpacked: &Unpacked<'_>,
    context: Context<'_>,
    report: &mut WalkReport,
    visit: Visit<'_>,
) -> Result<()> {
    if unpacked.containers.is_empty() {
        return records(unpacked.bytes, context.likely, None, visit);
    }
    let mut i = 0;
    let mut first = true;
    while let Some(container) = unpacked.containers.get(i) {
        let bytes = &unpacked.bytes[container.range.clone()];
        let ends = unpacked.containers[i + 1..].iter().map(|c| c.range.end);
        match Directory::find(bytes, container.range.end, ends, context.likely) {
            Ok((directory, taken)) => {
                let start = container.range.end;
                let notes = &mut report.notes;
                report.directories.insert(directory.form.name());
                let objects = &unpacked.bytes[start..start + directory.total];
                if directory.form != DirectoryForm::of_generation(context.likely) {
                    notes.push(format!(
                        "directory read as {} (by the sum of its sizes)",
                        directory.form.name()
                    ));
                }
                if taken != 1 {
                    notes.push(format!("one directory for {taken} containers (by the sum of its sizes)"));
                }
                if first {
                    directory.check_entry(objects, context.entry, notes);
                }
                directory.walk(objects, notes, visit);
                i += 1 + taken;
            }
            Err(refusal) => {
                let found = records(bytes, context.likely, None, visit).map_err(|e| {
                    Error::malformed(
                        e.offset().unwrap_or(0),
                        format_args!(
                            "container {i}, which is no directory ({refusal}) and no object ({})",
                            e.message()
                        ),
                        "a directory whose sizes add up, or an object record",
                    )
                });
                match found {
                    Ok(()) => {}
                    Err(e) if unpacked.containers.len() == 1 => return Err(e),
                    Err(e) => visit(Err(e)),
                }
                i += 1;
            }
        }
        first = false;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectoryForm {
    Ids64,
    Ids32,
    Siege,
}

impl DirectoryForm {
    fn of_generation(generation: Generation) -> Self {
        match generation {
            Generation::Ids64 => DirectoryForm::Ids64,
            Generation::Ids32 => DirectoryForm::Ids32,
        }
    }

    fn generation(self) -> Generation {
        match self {
            DirectoryForm::Ids32 => Generation::Ids32,
            _ => Generation::Ids64,
        }
    }

    fn name(self) -> &'static str {
        match self {
            DirectoryForm::Ids64 => "records of 64-bit ids with extras",
            DirectoryForm::Ids32 => "records of 32-bit ids",
            DirectoryForm::Siege => "records of 64-bit ids and a 32-bit count",
        }
    }

    /// Reads ids and sizes to the exact end of `bytes`.
    fn read(self, bytes: &[u8]) -> Result<Vec<(u64, u32)>> {
        let mut c = Cursor::new(bytes, 0);
        let (count, width) = match self {
            DirectoryForm::Siege => (c.u32("object count")? as usize, 12),
            DirectoryForm::Ids64 => (c.u16("object count")? as usize, 14),
            DirectoryForm::Ids32 => (c.u16("object count")? as usize, 8),
        };
        // Records may be longer than this, so a larger count cannot be true.
        c.clone().take_items(count, width, "directory records")?;
        let mut objects = Vec::with_capacity(count);
        for _ in 0..count {
            let id = match self {
                DirectoryForm::Ids32 => c.u32("object id")? as u64,
                _ => c.u64("object id")?,
            };
            let size = c.u32("object size")?;
            if self == DirectoryForm::Ids64 {
                let extras = c.u16("extra count")? as usize;
                c.take_items(extras, 2, "extras")?;
            }
            objects.push((id, size));
        }
        c.expect_end("the directory")?;
        Ok(objects)
    }
}

struct Directory {
    form: DirectoryForm,
    objects: Vec<(u64, u32)>,
    total: usize,
}

impl Directory {
    /// Finds the form in which `bytes` is a directory of what follows, and the number of containers that it covers. The
    /// containers behind it begin at `start` and end at `ends`.
    fn find(
        bytes: &[u8],
        start: usize,
        ends: impl Iterator<Item = usize> + Clone,
        likely: Generation,
    ) -> Result<(Directory, usize), String> {
        let forms = match likely {
            Generation::Ids64 => [DirectoryForm::Ids64, DirectoryForm::Ids32, DirectoryForm::Siege],
            Generation::Ids32 => [DirectoryForm::Ids32, DirectoryForm::Ids64, DirectoryForm::Siege],
        };
        let mut refusal = None;
        for form in forms {
            let Ok(objects) = form.read(bytes) else { continue };
            let total = objects.iter().map(|&(_, size)| size as usize).sum::<usize>();
            match ends.clone().position(|end| end - start == total) {
                Some(last) => return Ok((Directory { form, objects, total }, last + 1)),
                // An empty directory: the container behind it belongs to another pair.
                None if objects.is_empty() => return Ok((Directory { form, objects, total }, 0)),
                None => {
                    let follow = ends.clone().last().map_or(0, |end| end - start);
                    refusal.get_or_insert(format!(
                        "its {} objects would be {total} bytes, {follow} follow",
                        objects.len()
                    ));
                }
            }
        }
        Err(refusal.unwrap_or_else(|| format!("its {} bytes read in no form", bytes.len())))
    }

    /// Checks the first object against the entry (docs/formats/anvil.md, section 2.5). A difference is only noted.
    fn check_entry(&self, bytes: &[u8], entry: Option<&Entry>, notes: &mut Vec<String>) {
        let (Some(entry), Some(&(id, _))) = (entry, self.objects.first()) else { return };
        if id != entry.id {
            notes.push(format!("the first object is {id:X}, the entry {:X}", entry.id));
        }
        let cell = entry.class == Some(class::GRID_CELL_DATA_BLOCK)
            || entry.name.as_ref().is_some_and(|name| name.ends_with("_DataBlock"));
        if self.form == DirectoryForm::Ids32 && cell {
            let first = bytes.first_chunk().map(|b| u32::from_le_bytes(*b));
            if first != Some(class::GRID_CELL_DATA_BLOCK) {
                notes.push(format!(
                    "the first object of the cell is of class {:08X}, not GridCellDataBlock",
                    first.unwrap_or(0)
                ));
            }
        }
    }

    fn walk(&self, bytes: &[u8], notes: &mut Vec<String>, visit: Visit<'_>) {
        let mut at = 0usize;
        for &(id, size) in &self.objects {
            // The sizes add up to the slice's length, so this range is inside.
            let record = bytes.get(at..at + size as usize).unwrap_or_default();
            let base = at as u64;
            at += size as usize;
            let result = Record::read(record, base, self.form.generation()).and_then(|r| {
                if r.end == record.len() {
                    return Ok(r);
                }
                Err(Error::malformed(
                    base,
                    format_args!("an object of {} bytes by its header", r.end),
                    format_args!("the {size} bytes that the directory gives it"),
                ))
            });
            // Whether a NavMeshManager is arranged like an Animation is not known, and it is not needed.
            let is_nav_mesh = record.starts_with(&class::NAV_MESH_MANAGER.to_le_bytes());
            match result {
                Err(e) if is_nav_mesh && self.form == DirectoryForm::Ids32 => notes.push(format!(
                    "a NavMeshManager is not arranged like an Animation, passed over: {}",
                    e.message()
                )),
                Ok(r) => {
                    if r.id.is_some_and(|own| own != id) {
                        notes.push(format!(
                            "object {id:X} of the directory calls itself {:X}",
                            r.id.unwrap_or(0)
                        ));
                    }
                    visit(Ok(r.object(self.form.generation(), base, Some(id))));
                }
                Err(e) => visit(Err(e.in_entry(format!("object {id:X}")))),
            }
        }
    }
}

/// An object record; offsets within its slice.
#[derive(Debug, Clone)]
pub(crate) struct Record<'a> {
    bytes: &'a [u8],
    class: u32,
    name: &'a [u8],
    header: &'a [u8],
    /// The id that the record itself holds.
    id: Option<u64>,
    body: usize,
    pub(crate) end: usize,
    /// Whether the class is repeated where it should be. This tells the generations apart.
    pub(crate) class_repeated: bool,
}

impl<'a> Record<'a> {
    /// Reads the record at the start of `bytes`; `base` is their offset for errors.
    pub(crate) fn read(bytes: &'a [u8], base: u64, generation: Generation) -> Result<Self> {
        let mut c = Cursor::new(bytes, base);
        let class = c.u32("class")?;
        let declared = c.u32("object size")? as usize;
        let length = c.u32("name length")? as usize;
        let name = c.take(length, "object name")?;
        let header_at = c.position();
        let tag = c.u8("file header")?;
        let record = match (generation, tag) {
            (Generation::Ids64, 0 | 1) => {
                if tag == 1 {
                    c.skip(3, "file header")?;
                    let rows = c.u32("file header rows")? as usize;
                    c.take_items(rows, 12, "file header rows")?;
                }
                let header = &bytes[header_at..c.position()];
                let end = c.position().checked_add(declared);
                let id = c.u64("ClassID")?;
                let again = c.u32("class after the ClassID")?;
                let body = c.position();
                if declared < 12 {
                    return Err(Error::malformed(
                        base + 4,
                        format_args!("an object size of {declared}"),
                        "at least 12 for ClassID and class",
                    ));
                }
                Record {
                    bytes,
                    class,
                    name,
                    header,
                    id: Some(id),
                    body,
                    end: end.unwrap_or(usize::MAX),
                    class_repeated: again == class,
                }
            }
            (Generation::Ids32, 0 | 1) => {
                let body = c.position();
                let mut end = body.checked_add(declared);
                let mut table = 0;
                if tag == 1 {
                    c.skip(3, "allocator table")?;
                    let rows = c.u32("allocator rows")? as usize;
                    table = 7 + c.take_items(rows, 12, "allocator rows")?.len();
                    end = end.and_then(|end| end.checked_add(table));
                }
                let (id, class_repeated) = own_id(&bytes[body + table..], class);
                Record {
                    bytes,
                    class,
                    name,
                    header: &[],
                    id,
                    body,
                    end: end.unwrap_or(usize::MAX),
                    class_repeated,
                }
            }
            _ => {
                return Err(Error::malformed(
                    base + header_at as u64,
                    format_args!("a file header that starts with {tag}"),
                    "0 or 1",
                ));
            }
        };
        if record.end > bytes.len() {
            return Err(Error::malformed(
                base + 4,
                format_args!("{} bytes of an object", bytes.len()),
                format_args!("the {} that its header declares", record.end),
            ));
        }
        Ok(record)
    }

    /// The object; `id` from the directory where there is one.
    pub(crate) fn object(self, generation: Generation, base: u64, id: Option<u64>) -> Object<'a> {
        let end = self.name.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
        Object {
            generation,
            class: self.class,
            id: id.or(self.id).unwrap_or(0),
            name: latin(&self.name[..end]),
            header: self.header,
            body: &self.bytes[self.body..self.end],
            body_offset: base + self.body as u64,
        }
    }
}

/// The id at the start of a 32-bit body of `class`, managed or not, and whether the class follows it.
pub(crate) fn own_id(body: &[u8], class: u32) -> (Option<u64>, bool) {
    let word = |at: usize| body.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b));
    if matches!(body.first(), Some(0 | 1)) && word(5) == Some(class) {
        return (word(1).map(u64::from), true);
    }
    if word(4) == Some(class) {
        return (word(0).map(u64::from), true);
    }
    (None, false)
}

/// Reads the record at the start of `bytes` in the generation in which its class is repeated, trying `likely` first.
pub(crate) fn read_either<'a>(
    bytes: &'a [u8],
    base: u64,
    likely: Generation,
) -> Result<(Record<'a>, Generation)> {
    let other = match likely {
        Generation::Ids32 => Generation::Ids64,
        Generation::Ids64 => Generation::Ids32,
    };
    let mut failure = None;
    for generation in [likely, other] {
        match Record::read(bytes, base, generation) {
            Ok(record) if record.class_repeated => return Ok((record, generation)),
            Ok(record) => {
                failure.get_or_insert_with(|| {
                    Error::malformed(
                        base,
                        format_args!(
                            "an object header of class {:08X} whose body does not repeat the class",
                            record.class
                        ),
                        "the class behind the object's id",
                    )
                });
            }
            Err(e) => {
                failure.get_or_insert(e);
            }
        }
    }
    Err(failure.unwrap_or_else(|| Error::malformed(base, "no object", "an object record")))
}

/// Visits the object records in `bytes`, back to back and to the exact end. All are found before the first is visited,
/// so that bytes behind the last one are an error of the whole.
pub(crate) fn records(bytes: &[u8], likely: Generation, name: Option<&str>, visit: Visit<'_>) -> Result<()> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() || found.is_empty() {
        match read_either(&bytes[at..], at as u64, likely) {
            Ok((record, generation)) => {
                let end = at + record.end;
                found.push((at, record, generation));
                at = end;
            }
            Err(e) if found.is_empty() => return Err(e),
            Err(e) => {
                return Err(Error::malformed(
                    at as u64,
                    format_args!("{} more bytes ({})", bytes.len() - at, e.message()),
                    "the end of the object",
                ));
            }
        }
    }
    for (at, record, generation) in found {
        let mut object = record.object(generation, at as u64, None);
        if let (true, Some(name)) = (object.name.is_empty(), name) {
            object.name = name.to_owned();
        }
        visit(Ok(object));
    }
    Ok(())
}
