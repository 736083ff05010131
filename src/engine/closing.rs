//! The end of a run: the manifest and the report, from the records of its journal.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::journal::{RecordSpan, Records};
use super::output::{write_whole, write_whole_with};
use crate::error::Result;
use crate::report::manifest::{ClipRow, Manifest, Rows};
use crate::report::text::{Tally, text};

/// A written file on its way into the manifest.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its record in the journal.
    pub record: RecordSpan,
    /// Other places of its clip, where the record does not name them.
    pub also_at: Vec<String>,
}

/// Writes both. `manifest` holds everything but totals, files and clips; the last two come from `records` in the
/// order of `listed`. Failures and notes are put in order: which came first is chance, or another shard's. Returns the
/// number of failures.
///
/// # Errors
/// Io.
pub fn write(
    out: &Path,
    tag: &str,
    mut manifest: Manifest,
    mut tally: Tally,
    records: &Records,
    listed: &[Listed],
) -> Result<u64> {
    manifest.errors.sort();
    manifest.errors.dedup();
    manifest.notes.sort();
    manifest.notes.dedup();
    manifest.decided.sort();
    manifest.decided.dedup();
    tally.totals.failures = manifest.errors.len() as u64;
    manifest.totals = tally.totals.clone();
    let path = out.join(format!("manifest{tag}.json"));
    type Out<'a> = BufWriter<&'a mut File>;
    let files = |rows: &mut Rows<'_, Out<'_>>| {
        listed.iter().try_for_each(|one| rows.row(&records.head(one.record).map_err(io::Error::other)?.file))
    };
    let clips = |rows: &mut Rows<'_, Out<'_>>| {
        listed.iter().try_for_each(|one| {
            let row = |line: &[u8]| {
                if one.also_at.is_empty() {
                    return rows.raw(line);
                }
                let mut row: ClipRow = serde_json::from_slice(line)?;
                row.also_at.clone_from(&one.also_at);
                rows.row(&row)
            };
            records.rows(one.record, row)
        })
    };
    write_whole_with(&path, tag, |file| {
        let mut file = BufWriter::with_capacity(1 << 16, file);
        manifest.write(&mut file, files, clips)?;
        file.flush()
    })?;
    write_whole(&out.join(format!("report{tag}.txt")), text(&manifest, &tally).as_bytes(), tag)?;
    Ok(manifest.totals.failures)
}
