//! The timelines of a clip after its tracks have changed.

use crate::model::Clip;

/// Drops timelines that no track uses; the others keep their order.
pub(crate) fn drop_unused_timelines(clip: &mut Clip) {
    const UNUSED: u32 = u32::MAX;
    // The new number of each timeline.
    let mut number = vec![UNUSED; clip.timelines.len()];
    for track in &clip.tracks {
        number[track.timeline as usize] = 0;
    }
    for (next, n) in number.iter_mut().filter(|n| **n == 0).enumerate() {
        *n = next as u32;
    }
    let mut index = 0;
    clip.timelines.retain(|_| {
        index += 1;
        number[index - 1] != UNUSED
    });
    for track in &mut clip.tracks {
        track.timeline = number[track.timeline as usize];
    }
}
