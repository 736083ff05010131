//! Before the clips: which parts of the inputs hold some, which skeletons there are, what names clips.

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::cache::Cache;
use super::game::{ClipUse, Found, Input, Layout, Resource, Scratch, Source, UnitPlan};
use super::skeletons::Skeletons;
use crate::error::Error;
use crate::model::Skeleton;

/// Unpacked bytes of resources that a survey keeps for the conversion.
const CACHE_BYTES: u64 = 48 << 20;

/// A part of an input that is read at once: a dictionary, or an entry of an archive.
#[derive(Debug)]
pub struct Unit {
    /// Index of the input.
    pub input: usize,
    /// Index of the part in its source.
    pub part: usize,
    /// Stored bytes.
    pub size: u64,
    /// Its resources, where the survey has found them all: then it is not read again.
    pub found: Option<Vec<Resource<'static>>>,
}

/// What a unit holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// Index of its input.
    pub input: usize,
    /// Index of the part in its source.
    pub part: usize,
    /// Its resources.
    pub resources: Vec<Resource<'static>>,
    /// What could not be read of it.
    pub errors: Vec<Error>,
    /// How open questions were decided.
    pub notes: Vec<String>,
}

/// Everything that a look into the inputs finds.
#[derive(Debug, Default)]
pub struct Survey {
    /// What may hold clips, in the order of the inputs.
    pub units: Vec<Unit>,
    /// Objects that name clips, with the input (its index) that holds each.
    pub uses: Vec<(usize, ClipUse)>,
    /// What could not be read.
    pub errors: Vec<Error>,
    /// Sentences about an input (its index), once for each unit that gives rise to them.
    pub notes: Vec<(usize, String)>,
}

/// Reads the resources of a unit.
pub fn read(source: &dyn Source, unit: &Unit, scratch: &mut Scratch) -> Contents {
    let mut out = Contents { input: unit.input, part: unit.part, ..Contents::default() };
    let result = source.visit(unit.part, false, scratch, &mut |found| match found {
        Ok(Found::Clips(resource)) => out.resources.push(resource.into_owned()),
        Ok(Found::Note(note)) => out.notes.push(note),
        Ok(Found::Skeleton(_) | Found::Use(_)) => {}
        Err(e) => out.errors.push(e),
    });
    out.errors.extend(result.err());
    out
}

/// Looks through `sources` (one an input; `None` where it could not be opened); skeletons go to `skeletons`. `look`
/// hears of each archive before it is looked through.
pub fn survey(
    inputs: &[Input],
    sources: &[Option<Box<dyn Source>>],
    skeletons: &mut Skeletons,
    mut look: impl FnMut(&Input),
) -> Survey {
    let mut survey = Survey::default();
    let mut replaced = survey.replaced(sources);
    let cache = Cache::new(CACHE_BYTES);
    let mut uses = FxHashSet::default();
    for (i, source) in sources.iter().enumerate() {
        let Some(source) = source else { continue };
        if (0..source.units()).any(|u| source.unit_plan(u) == UnitPlan::Survey) {
            look(&inputs[i]);
        }
        survey.notes.extend(source.notes().into_iter().map(|n| (i, n)));
        survey.errors.extend(source.faults().iter().cloned());
        let replaced = replaced.remove(&i).unwrap_or_default();
        survey.source(i, &inputs[i], &**source, &replaced, &cache, skeletons, &mut uses);
    }
    survey.deal(&cache);
    survey
}

/// What a survey of one unit finds.
#[derive(Default)]
struct Scan {
    skeletons: Vec<Skeleton>,
    resources: Vec<Resource<'static>>,
    uses: Vec<ClipUse>,
    errors: Vec<Error>,
    notes: Vec<String>,
    /// Whether something could not be read: the unit is read again, and its faults are reported with its clips.
    is_damaged: bool,
}

fn scan(source: &dyn Source, unit: usize, scratch: &mut Scratch, cache: Option<&Cache>) -> Scan {
    let mut scan = Scan::default();
    let result = source.visit(unit, true, scratch, &mut |found| match found {
        Ok(Found::Clips(resource)) => scan.resources.push(match cache {
            Some(cache) => cache.keep(resource),
            None => resource.without_bytes(),
        }),
        Ok(Found::Skeleton(Ok(skeleton))) => scan.skeletons.push(skeleton),
        Ok(Found::Use(Ok(one))) => scan.uses.push(one),
        Ok(Found::Skeleton(Err(e)) | Found::Use(Err(e))) => scan.errors.push(e),
        Ok(Found::Note(note)) => scan.notes.push(note),
        Err(_) => scan.is_damaged = true,
    });
    scan.is_damaged |= result.is_err();
    scan
}

/// The skeletons of all units of a source, and what could not be read.
pub fn skeletons_of(source: &dyn Source) -> (Vec<Skeleton>, Vec<Error>) {
    let (mut scratch, mut skeletons, mut errors) = (Scratch::default(), Vec::new(), Vec::new());
    for unit in 0..source.units() {
        let scan = scan(source, unit, &mut scratch, None);
        skeletons.extend(scan.skeletons);
        errors.extend(scan.errors);
    }
    (skeletons, errors)
}

impl Survey {
    /// Which units (by input) those of a later archive replace.
    fn replaced(&mut self, sources: &[Option<Box<dyn Source>>]) -> FxHashMap<usize, FxHashSet<usize>> {
        let mut later: FxHashSet<u64> = FxHashSet::default();
        let mut replaced: FxHashMap<usize, FxHashSet<usize>> = FxHashMap::default();
        for (input, source) in sources.iter().enumerate().rev() {
            let Some(source) = source else { continue };
            let ids: Vec<(usize, u64)> =
                (0..source.units()).filter_map(|u| Some((u, source.unit_id(u)?))).collect();
            let hidden: FxHashSet<usize> =
                ids.iter().filter(|(_, id)| later.contains(id)).map(|(u, _)| *u).collect();
            later.extend(ids.into_iter().map(|(_, id)| id));
            if !hidden.is_empty() {
                let text = "an entry is replaced by that of a later archive with the same id";
                self.notes.extend(hidden.iter().map(|_| (input, text.to_owned())));
                replaced.insert(input, hidden);
            }
        }
        replaced
    }

    #[expect(clippy::too_many_arguments, reason = "one call, in the loop over the inputs")]
    fn source(
        &mut self,
        input: usize,
        given: &Input,
        source: &dyn Source,
        replaced: &FxHashSet<usize>,
        cache: &Cache,
        skeletons: &mut Skeletons,
        uses: &mut FxHashSet<(String, ClipUse)>,
    ) {
        // A file that was given for its own sake is converted whatever else holds its clip, and is read once.
        let cache = (source.layout() == Layout::Folder).then_some(cache);
        let family = given.game.map_or("", |g| g.family());
        let scans: Vec<(usize, UnitPlan, Option<Scan>)> = (0..source.units())
            .into_par_iter()
            .filter(|unit| !replaced.contains(unit))
            .map_init(Scratch::default, |scratch, unit| {
                let plan = source.unit_plan(unit);
                (unit, plan, (plan == UnitPlan::Survey).then(|| scan(source, unit, scratch, cache)))
            })
            .collect();
        for (part, plan, scan) in scans {
            let unit = |found| Unit { input, part, size: source.unit_bytes(part), found };
            let Some(scan) = scan else {
                match plan {
                    UnitPlan::PassOver(why) => self.notes.push((input, why.to_owned())),
                    UnitPlan::Read | UnitPlan::Survey => self.units.push(unit(None)),
                }
                continue;
            };
            for skeleton in scan.skeletons {
                skeletons.add(input, family, skeleton);
            }
            self.errors.extend(scan.errors);
            // Cells of a level repeat their objects.
            let new = |one: &ClipUse| uses.insert((given.relative.clone(), one.clone()));
            self.uses.extend(scan.uses.into_iter().filter(new).map(|one| (input, one)));
            match (scan.is_damaged, cache) {
                // Its faults are reported with its clips.
                (true, _) => self.units.push(unit(None)),
                (false, Some(_)) if !scan.resources.is_empty() => {
                    self.notes.extend(scan.notes.into_iter().map(|n| (input, n)));
                    self.units.push(unit(Some(scan.resources)));
                }
                (false, None) if !scan.resources.is_empty() => self.units.push(unit(None)),
                (false, _) => self.notes.extend(scan.notes.into_iter().map(|n| (input, n))),
            }
        }
    }

    /// Gives each resource's bytes to its first place. A unit whose bytes were not kept is read again.
    fn deal(&mut self, cache: &Cache) {
        let mut met = FxHashSet::default();
        for unit in &mut self.units {
            let Some(resources) = &mut unit.found else { continue };
            let mut is_whole = true;
            for resource in resources {
                let Some(identity) = resource.identity() else {
                    is_whole = false;
                    continue;
                };
                if met.insert(identity) {
                    match cache.take(identity) {
                        Some(bytes) => resource.bytes = bytes,
                        None => is_whole = false,
                    }
                }
            }
            if !is_whole {
                unit.found = None;
            }
        }
    }
}
