//! Which joint and which clip of one file is which of the other.

use crate::compare::measure::angle_deg;
use crate::games::own::scene::{Animation, ImportedScene, Joint};

/// The joints of two files, paired.
#[derive(Debug, Clone, Default)]
pub struct Joints {
    /// For each old joint its new one.
    pub new_of: Vec<Option<usize>>,
    /// For each new joint its old one.
    pub old_of: Vec<Option<usize>>,
}

impl Joints {
    fn join(&mut self, old: usize, new: usize) {
        self.new_of[old] = Some(new);
        self.old_of[new] = Some(old);
    }

    /// Old and new indices of what is on both sides, in the old order.
    pub fn both(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.new_of.iter().enumerate().filter_map(|(old, new)| Some((old, (*new)?)))
    }
}

/// Pairs joints: equal names; then, of what is left, joints below the same parent that rest alike or have the
/// same joints below them: they were renamed.
pub fn joints(old: &[Joint], new: &[Joint]) -> Joints {
    let mut out = Joints { new_of: vec![None; old.len()], old_of: vec![None; new.len()] };
    let mut by_name: std::collections::HashMap<&str, Vec<usize>> = std::collections::HashMap::new();
    for (i, joint) in new.iter().enumerate().rev() {
        by_name.entry(&joint.name).or_default().push(i);
    }
    for (i, joint) in old.iter().enumerate() {
        if let Some(k) = by_name.get_mut(joint.name.as_str()).and_then(Vec::pop) {
            out.join(i, k);
        }
    }
    // Parents come first, so a renamed parent is known when its renamed child is looked at.
    for i in 0..old.len() {
        if out.new_of[i].is_some() {
            continue;
        }
        let parent = match old[i].parent {
            Some(p) => match out.new_of[p] {
                Some(p) => Some(p),
                None => continue,
            },
            None => None,
        };
        let score = |k: usize| {
            let children = (0..old.len())
                .filter(|c| old[*c].parent == Some(i))
                .filter(|c| out.new_of[*c].is_some_and(|n| new[n].parent == Some(k)))
                .count();
            let (a, b) = (&old[i].rest, &new[k].rest);
            let alike = a.translation.distance(b.translation) < 1e-6
                && angle_deg(a.rotation, b.rotation) < 1e-3
                && a.scale.distance(b.scale) < 1e-6;
            children * 2 + usize::from(alike)
        };
        let best = (0..new.len())
            .filter(|k| out.old_of[*k].is_none() && new[*k].parent == parent)
            .map(|k| (score(k), k))
            .filter(|(score, _)| *score > 0)
            .reduce(|a, b| if b.0 > a.0 { b } else { a });
        if let Some((_, k)) = best {
            out.join(i, k);
        }
    }
    out
}

/// Pairs clips: (old, new), old ones in order, then those that are only new. Equal id and name, equal id, equal
/// name; then, of what is left, those that `equal` finds to be the same.
pub fn clips(
    old: &ImportedScene,
    new: &ImportedScene,
    mut equal: impl FnMut(usize, usize) -> bool,
) -> Vec<(Option<usize>, Option<usize>)> {
    let (a, b) = (&old.animations, &new.animations);
    let mut new_of: Vec<Option<usize>> = vec![None; a.len()];
    let mut taken = vec![false; b.len()];
    let mut pass = |same: &mut dyn FnMut(usize, usize) -> bool| {
        for (i, slot) in new_of.iter_mut().enumerate() {
            if slot.is_none()
                && let Some(k) = (0..b.len()).find(|k| !taken[*k] && same(i, *k))
            {
                *slot = Some(k);
                taken[k] = true;
            }
        }
    };
    let id = |x: &Animation, y: &Animation| x.id().is_some() && x.id() == y.id();
    // A file may hold clips of one id from several places.
    pass(&mut |i, k| {
        id(&a[i], &b[k]) && a[i].name == b[k].name && a[i].extra("source") == b[k].extra("source")
    });
    pass(&mut |i, k| id(&a[i], &b[k]) && a[i].name == b[k].name);
    pass(&mut |i, k| id(&a[i], &b[k]));
    pass(&mut |i, k| a[i].name == b[k].name);
    pass(&mut |i, k| equal(i, k));
    let mut out: Vec<_> = new_of.iter().enumerate().map(|(i, k)| (Some(i), *k)).collect();
    out.extend(taken.iter().enumerate().filter(|(_, t)| !**t).map(|(k, _)| (None, Some(k))));
    out
}
