//! The census of clip dictionaries.

use std::any::Any;

use super::{records, ycd};
use crate::error::Result;
use crate::source::{Census, Found, Resource, Scratch, Source, UnitCensus};

/// What is counted.
#[derive(Debug, Default)]
pub struct RageCensus {
    dictionaries: u64,
    refused: u64,
    counts: ycd::Census,
}

/// What is counted of one unit; `None`: it was refused.
type Part = Option<ycd::Census>;

/// Room for an unpacked dictionary.
#[derive(Default)]
struct Unpacked(Vec<u8>);

impl Census for RageCensus {
    fn open(&mut self, source: &dyn Source) {
        self.dictionaries += source.units() as u64;
    }

    fn count(&self, source: &dyn Source, unit: usize, label: &str, scratch: &mut Scratch) -> UnitCensus {
        let (mut part, mut errors): (Part, _) = (None, Vec::new());
        let mut unpacked = std::mem::take(scratch.of::<Unpacked>());
        let result = source.visit(unit, true, scratch, &mut |found| {
            let Ok(Found::Clips(resource)) = found else { return };
            match of_resource(&resource, label, &mut unpacked.0) {
                Ok((counts, refused)) => {
                    part = Some(counts);
                    errors.extend(refused);
                }
                Err(e) => errors.push(e),
            }
            if let Some(entry) = &resource.entry {
                errors = std::mem::take(&mut errors).into_iter().map(|e| e.in_entry(entry.clone())).collect();
            }
        });
        errors.extend(result.err());
        *scratch.of::<Unpacked>() = unpacked;
        UnitCensus { counts: Box::new(part), errors, notes: Vec::new() }
    }

    fn add(&mut self, counts: Box<dyn Any + Send>) {
        match counts.downcast::<Part>().map(|part| *part) {
            Ok(Some(counts)) => self.counts.add(&counts),
            _ => self.refused += 1,
        }
    }

    fn json(&self) -> Vec<(&'static str, Box<dyn erased_serde::Serialize + '_>)> {
        vec![
            ("dictionaries", Box::new(self.dictionaries)),
            ("dictionaries_refused", Box::new(self.refused)),
            ("GTAV", Box::new(&self.counts)),
        ]
    }

    fn text(&self) -> Vec<String> {
        if self.dictionaries == 0 {
            return Vec::new();
        }
        let counts = &self.counts;
        let list = |counts: &std::collections::BTreeMap<u8, u64>| {
            counts.iter().map(|(k, n)| format!("{k}: {n}")).collect::<Vec<_>>().join(", ")
        };
        vec![
            format!(
                "GTA V: {} dictionaries ({} refused), {} clips, {} animations, {} track-frames",
                self.dictionaries, self.refused, counts.clips, counts.animations, counts.track_frames
            ),
            format!(
                "  sequences {} strict, {} with the known deviation",
                counts.sequences_strict, counts.sequences_deviating
            ),
            format!("  channels by type {}", list(&counts.channels)),
            format!("  tracks by number {}", list(&counts.tracks)),
        ]
    }

    fn decoded(&self) -> u64 {
        self.counts.clips
    }
}

/// Counts a dictionary; what of it is refused stands beside.
fn of_resource(
    resource: &Resource<'_>,
    source: &str,
    unpacked: &mut Vec<u8>,
) -> Result<(ycd::Census, Vec<crate::error::Error>)> {
    let records = records(resource.body()?, unpacked)?;
    let counts = ycd::Census::of(&records);
    let read = ycd::clips::assemble(records, source)?;
    Ok((counts, read.errors))
}
