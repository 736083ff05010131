//! A comparison as one self-contained page: every clip in a table, the curves of the worst ones drawn.

use std::fmt::Write;

use crate::compare::diff::{ClipDiff, FileDiff, Outcome, Status};
use crate::compare::evaluate;
use crate::compare::evaluate::Pose;
use crate::compare::measure::{above_mm, angle_deg};
use crate::error::Result;
use crate::games::own::open::open;
use crate::games::own::scene::{Animation, ImportedScene};

/// Clips whose curves are drawn.
const DRAWN: usize = 12;
/// Joints of a clip whose curves are drawn.
const JOINTS: usize = 3;
/// Points of a curve.
const POINTS: usize = 400;
/// Rows of the table: a reader looks at no more.
const ROWS: usize = 2000;

const STYLE: &str = "
body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#1b1f24;background:#fff}
h1{font-size:1.5em}h2{font-size:1.15em;margin:2em 0 .4em;border-top:1px solid #d8dee4;padding-top:1em}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25em .6em;border-bottom:1px solid #e4e8ec;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.equal{color:#57606a}.changed{color:#9a6700}.renamed{color:#0969da}.added{color:#1a7f37}.removed{color:#cf222e}
svg{display:block;margin:.6em 0;max-width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#57606a}
ul{margin:.3em 0;padding-left:1.4em}.legend span{margin-right:1.2em;white-space:nowrap}.legend i{display:inline-block;width:1.6em;border-top:2px solid;vertical-align:middle;margin-right:.4em}
.legend i.d{border-top-style:dashed}
";

/// Colours of x, y, z, w: told apart without red and green.
const COLOURS: [&str; 4] = ["#d55e00", "#009e73", "#0072b2", "#8250df"];

/// The page.
///
/// # Errors
/// Files that could be read for the comparison and now cannot.
pub fn page(outcome: &Outcome, title: &str) -> Result<String> {
    let mut out = String::new();
    let all: Vec<(&FileDiff, &ClipDiff)> =
        outcome.files.iter().flat_map(|f| f.clips.iter().map(move |c| (f, c))).collect();
    let count = |status| all.iter().filter(|(_, c)| c.status == status).count();
    push(
        &mut out,
        format_args!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style></head><body>\n<h1>{0}</h1>\n",
            escape(title)
        ),
    );
    push(
        &mut out,
        format_args!(
            "<p>{} files, {} clips: {} equal, {} changed, {} renamed, {} added, {} removed. {} could not be compared. mm are distances in model space of points 10 cm from a joint.</p>\n",
            outcome.files.len(),
            all.len(),
            count(Status::Equal),
            count(Status::Changed),
            count(Status::Renamed),
            count(Status::Added),
            count(Status::Removed),
            outcome.errors.len()
        ),
    );
    if !outcome.errors.is_empty() {
        items(&mut out, outcome.errors.iter().map(String::as_str));
    }
    let mut worst: Vec<(&FileDiff, &ClipDiff)> =
        all.iter().copied().filter(|(_, c)| c.status != Status::Equal && c.largest_mm.is_some()).collect();
    worst.sort_by(|a, b| millimetres(b.1).total_cmp(&millimetres(a.1)));
    worst.truncate(DRAWN);
    table(&mut out, outcome, &all);
    for (file, clip) in worst {
        drawn(&mut out, file, clip)?;
    }
    out.push_str("</body></html>\n");
    Ok(out)
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = out.write_fmt(text);
}

fn millimetres(clip: &ClipDiff) -> f64 {
    clip.largest_mm.as_ref().map_or(0.0, |w| w.value)
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

fn items<'a>(out: &mut String, texts: impl Iterator<Item = &'a str>) {
    out.push_str("<ul>");
    texts.for_each(|t| push(out, format_args!("<li>{}</li>", escape(t))));
    out.push_str("</ul>\n");
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Equal => "equal",
        Status::Changed => "changed",
        Status::Renamed => "renamed",
        Status::Added => "added",
        Status::Removed => "removed",
    }
}

fn table(out: &mut String, outcome: &Outcome, all: &[(&FileDiff, &ClipDiff)]) {
    for file in outcome.files.iter().filter(|f| !f.changes.is_empty()) {
        push(out, format_args!("<p class=\"changed\">{}</p>", escape(&file.file)));
        items(out, file.changes.iter().map(|c| c.text.as_str()));
    }
    out.push_str("<table><tr><th>file</th><th>clip</th><th></th><th>largest mm</th><th>largest deg</th><th>else</th></tr>\n");
    let mut rows: Vec<&(&FileDiff, &ClipDiff)> = all.iter().collect();
    // What differs first; the order is otherwise that of the files.
    rows.sort_by_key(|(_, c)| c.status == Status::Equal);
    for (file, clip) in rows.iter().take(ROWS) {
        let number = |w: Option<&crate::compare::verify::Worst>| {
            w.map_or(String::new(), |w| format!("{:.4} <small>{}</small>", w.value, escape(&w.joint)))
        };
        push(
            out,
            format_args!(
                "<tr><td>{}</td><td>{}</td><td class=\"{s}\">{s}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>",
                escape(&file.file),
                escape(&name(clip)),
                number(clip.largest_mm.as_ref()),
                number(clip.largest_deg.as_ref()),
                s = status(clip.status),
            ),
        );
        if !clip.changes.is_empty() {
            items(out, clip.changes.iter().take(8).map(|c| c.text.as_str()));
        }
        out.push_str("</td></tr>\n");
    }
    out.push_str("</table>\n");
    if rows.len() > ROWS {
        push(out, format_args!("<p>and {} more</p>\n", rows.len() - ROWS));
    }
}

fn name(clip: &ClipDiff) -> String {
    match (&clip.old_name, &clip.new_name) {
        (Some(a), Some(b)) if a != b => format!("{a} -> {b}"),
        (_, Some(name)) | (Some(name), None) => name.clone(),
        (None, None) => String::new(),
    }
}

struct Line {
    label: String,
    colour: &'static str,
    dashed: bool,
    values: Vec<f64>,
}

fn drawn(out: &mut String, file: &FileDiff, clip: &ClipDiff) -> Result<()> {
    let (Some(old), Some(new)) = (&file.paths.0, &file.paths.1) else { return Ok(()) };
    let (a, b) = (open(old)?, open(new)?);
    let find = |scene: &ImportedScene, name: &Option<String>| -> Option<Animation> {
        let name = name.as_ref()?;
        let same = |a: &&Animation| a.name == *name;
        let of_id = |a: &&Animation| same(a) && a.id() == clip.id.as_deref();
        scene.animations.iter().find(of_id).or_else(|| scene.animations.iter().find(same)).cloned()
    };
    let (Some(x), Some(y)) = (find(&a, &clip.old_name), find(&b, &clip.new_name)) else { return Ok(()) };
    let pairs = crate::compare::pair::joints(&a.joints, &b.joints);
    push(out, format_args!("<h2>{}: {}</h2>\n", escape(&file.file), escape(&name(clip))));
    items(out, clip.changes.iter().map(|c| c.text.as_str()));

    let length = x.length_s.max(y.length_s);
    let length = if length.is_finite() && length > 0.0 { length } else { 1.0 };
    let times: Vec<f64> = (0..=POINTS).map(|i| length * i as f64 / POINTS as f64).collect();
    let poses = |scene: &ImportedScene, animation: &Animation| -> Vec<Pose> {
        let one = |t: &f64| {
            let mut pose = Pose::default();
            evaluate::pose(scene, animation, *t, &mut pose);
            pose
        };
        times.iter().map(one).collect()
    };
    let (pa, pb) = (poses(&a, &x), poses(&b, &y));
    let joint = |name: &str| {
        let k = b.joint(name)?;
        Some((pairs.old_of[k]?, k))
    };
    if let Some((worst, (i, k))) = clip.largest_mm.as_ref().and_then(|w| Some((w, joint(&w.joint)?))) {
        let values = pa.iter().zip(&pb).map(|(p, q)| above_mm(&p.model[i], &q.model[k], 0.0).unwrap_or(0.0));
        let line = Line {
            label: format!("{} (model space)", worst.joint),
            colour: COLOURS[2],
            dashed: false,
            values: values.collect(),
        };
        chart(out, "difference, mm of a point 10 cm from the joint", &[line], length, Some(worst.time_s));
    }
    if let Some((worst, (i, k))) = clip.largest_deg.as_ref().and_then(|w| Some((w, joint(&w.joint)?))) {
        let values = pa.iter().zip(&pb).map(|(p, q)| angle_deg(p.local[i].rotation, q.local[k].rotation));
        let line = Line {
            label: format!("{} (its own rotation)", worst.joint),
            colour: COLOURS[0],
            dashed: false,
            values: values.collect(),
        };
        chart(out, "difference, degrees", &[line], length, Some(worst.time_s));
    }
    for found in clip.joints.iter().take(JOINTS) {
        let Some((i, k)) = joint(&found.joint) else { continue };
        if found.deg > 0.0 {
            // The sign of a quaternion means nothing: all follow the first.
            let first = pa[0].local[i].rotation;
            let rows = |poses: &[Pose], joint: usize| -> Vec<[f64; 4]> {
                let mut before = first;
                poses
                    .iter()
                    .map(|p| {
                        let q = p.local[joint].rotation;
                        before = if q.dot(before) < 0.0 { -q } else { q };
                        before.to_array()
                    })
                    .collect()
            };
            let title = format!("{}: rotation (quaternion)", found.joint);
            both(out, &title, &rows(&pa, i), &rows(&pb, k), &["x", "y", "z", "w"], length, found.deg_at_s);
        }
        let moved = |p: &[Pose], joint: usize| -> Vec<[f64; 4]> {
            p.iter().map(|p| p.local[joint].translation.extend(0.0).to_array()).collect()
        };
        let (old, new) = (moved(&pa, i), moved(&pb, k));
        if old.iter().zip(&new).any(|(a, b)| a.iter().zip(b).any(|(a, b)| (a - b).abs() > 1e-7)) {
            let title = format!("{}: translation, m", found.joint);
            both(out, &title, &old, &new, &["x", "y", "z"], length, found.own_mm_at_s);
        }
    }
    Ok(())
}

/// Old (solid) and new (dashed) curves in one chart.
fn both(
    out: &mut String,
    title: &str,
    old: &[[f64; 4]],
    new: &[[f64; 4]],
    names: &[&str],
    length: f64,
    at: f64,
) {
    let mut lines = Vec::new();
    for (axis, name) in names.iter().enumerate() {
        for (rows, side, dashed) in [(old, "old", false), (new, "new", true)] {
            lines.push(Line {
                label: format!("{name} {side}"),
                colour: COLOURS[axis],
                dashed,
                values: rows.iter().map(|r| r[axis]).collect(),
            });
        }
    }
    chart(out, title, &lines, length, Some(at));
}

fn chart(out: &mut String, title: &str, lines: &[Line], length: f64, mark: Option<f64>) {
    const WIDTH: f64 = 900.0;
    const HEIGHT: f64 = 200.0;
    const LEFT: f64 = 64.0;
    const TOP: f64 = 22.0;
    const BOTTOM: f64 = 24.0;
    let finite = || lines.iter().flat_map(|l| &l.values).copied().filter(|v| v.is_finite());
    let (mut low, mut high) =
        (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    if !(low.is_finite() && high.is_finite()) {
        return;
    }
    if high - low < 1e-9 {
        (low, high) = (low - 0.5, high + 0.5);
    }
    let x = |t: f64| LEFT + (WIDTH - LEFT - 8.0) * (t / length).clamp(0.0, 1.0);
    let y = |v: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - (v - low) / (high - low));
    push(
        out,
        format_args!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\"><text x=\"{LEFT}\" y=\"13\">{}</text>\n",
            escape(title)
        ),
    );
    for part in 0..=4 {
        let f = f64::from(part) / 4.0;
        let (v, t) = (low + (high - low) * f, length * f);
        push(
            out,
            format_args!(
                "<path d=\"M{LEFT} {0:.1}H{1}\" stroke=\"#e4e8ec\"/><text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{v:.4}</text><text x=\"{4:.1}\" y=\"{5}\" text-anchor=\"middle\">{t:.2} s</text>\n",
                y(v),
                WIDTH - 8.0,
                LEFT - 6.0,
                y(v) + 4.0,
                x(t).min(WIDTH - 24.0),
                HEIGHT - 6.0
            ),
        );
    }
    if let Some(t) = mark {
        push(
            out,
            format_args!(
                "<path d=\"M{0:.1} {TOP}V{1}\" stroke=\"#8c959f\" stroke-dasharray=\"2 3\"/>\n",
                x(t),
                HEIGHT - BOTTOM
            ),
        );
    }
    for line in lines {
        let mut d = String::new();
        let mut pen = 'M';
        for (i, v) in line.values.iter().enumerate() {
            if !v.is_finite() {
                pen = 'M';
                continue;
            }
            let t = length * i as f64 / (line.values.len().max(2) - 1) as f64;
            push(&mut d, format_args!("{pen}{:.1} {:.1}", x(t), y(*v)));
            pen = 'L';
        }
        let dash = if line.dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        push(
            out,
            format_args!(
                "<path d=\"{d}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"{dash}/>\n",
                line.colour
            ),
        );
    }
    out.push_str("</svg>\n<p class=\"legend\">");
    for line in lines {
        push(
            out,
            format_args!(
                "<span><i{} style=\"border-color:{}\"></i>{}</span>",
                if line.dashed { " class=\"d\"" } else { "" },
                line.colour,
                escape(&line.label)
            ),
        );
    }
    out.push_str("</p>\n");
}
