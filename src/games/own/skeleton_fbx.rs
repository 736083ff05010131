//! Skeletons of binary .fbx files of any tool: the limbs, their names, parents and local transforms.
//!
//! FBX has no public specification; the layout is the one that open readers agree on.
//!
//! | offset | type | field |
//! |---|---|---|
//! | 0x00 | 23 bytes | `Kaydara FBX Binary  \0\x1a\0` |
//! | 0x17 | u32 | version; from 7500 on the three words of a record are u64 |
//! | 0x1B | records | end offset, property count, property bytes, u8 name length, name, properties, records |
//!
//! Used: `GlobalSettings` (`UpAxis`, `UnitScaleFactor`: centimetres), `Objects/Model` (id, name, kind and
//! `Properties70`), `Connections/C` (`OO`, child, parent). A local rotation is `PreRotation`, then the Euler
//! angles of `Lcl Rotation` in degrees, then the inverse of `PostRotation`; all but `Lcl Rotation` count only
//! where `RotationActive` says so. Pivots are not read.

use std::collections::HashMap;

use glam::{DQuat, DVec3, Vec3};

use crate::source::JointScheme;
use crate::error::{Error, ErrorKind, Result};
use crate::games::own::skeleton::SkeletonFile;
use crate::games::own::skeleton_gltf::{FileJoint, Hint, Turn, compose, to_model, top_down};
use crate::io::bytes::Cursor;
use crate::model::Trs;

/// First bytes of a binary FBX file.
pub const MAGIC: &[u8] = b"Kaydara FBX Binary  \0\x1a\0";
/// Deepest nesting that is followed; what is read here stands four deep.
const MAX_DEPTH: u32 = 64;

/// A property of a record; arrays and raw bytes are skipped.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value<'a> {
    Number(f64),
    Id(i64),
    Text(&'a [u8]),
    Other,
}

impl Value<'_> {
    fn number(self) -> Option<f64> {
        match self {
            Value::Number(v) => Some(v),
            Value::Id(v) => Some(v as f64),
            _ => None,
        }
    }
}

/// A record: its name, properties and where the records below it are.
struct Record<'a> {
    name: &'a [u8],
    properties: Vec<Value<'a>>,
    below: Cursor<'a>,
}

/// What stands in `Properties70`, as far as numbers go.
type Settings<'a> = HashMap<&'a [u8], [f64; 3]>;

struct Model<'a> {
    name: &'a [u8],
    is_limb: bool,
    settings: Settings<'a>,
}

/// Reads a skeleton. `ids` says what joint names stand for.
///
/// # Errors
/// Malformed: records that do not fit each other, models in a loop. Unsupported: no limb.
pub fn read(bytes: &[u8], name: &str, ids: &dyn JointScheme) -> Result<SkeletonFile> {
    let mut c = Cursor::new(bytes, 0);
    c.skip(MAGIC.len(), "the magic")?;
    let wide = c.u32("the version")? >= 7500;
    let mut global = Settings::new();
    let mut models: Vec<Model> = Vec::new();
    let mut by_id: HashMap<i64, usize> = HashMap::new();
    let mut links: Vec<(i64, i64)> = Vec::new();
    let mut creator: &[u8] = b"";
    while let Some(top) = record(&mut c, wide, 0)? {
        let mut below = top.below;
        match top.name {
            b"Creator" => {
                if let Some(Value::Text(text)) = top.properties.first() {
                    creator = text;
                }
            }
            b"GlobalSettings" => global = settings(&mut below, wide)?,
            b"Objects" => {
                while let Some(mut object) = record(&mut below, wide, 1)? {
                    let (b"Model", [Value::Id(id), Value::Text(text), Value::Text(kind), ..]) =
                        (object.name, &object.properties[..])
                    else {
                        continue;
                    };
                    by_id.insert(*id, models.len());
                    // The name ends where the class begins: "Hips\0\x01Model".
                    let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
                    models.push(Model {
                        name: &text[..end],
                        is_limb: matches!(*kind, b"LimbNode" | b"Limb" | b"Root"),
                        settings: settings(&mut object.below, wide)?,
                    });
                }
            }
            b"Connections" => {
                while let Some(link) = record(&mut below, wide, 1)? {
                    if let [Value::Text(b"OO"), Value::Id(child), Value::Id(parent), ..] = link.properties[..]
                    {
                        links.push((child, parent));
                    }
                }
            }
            _ => {}
        }
    }
    let mut parents = vec![None; models.len()];
    for (child, parent) in links {
        if let (Some(&child), Some(&parent)) = (by_id.get(&child), by_id.get(&parent)) {
            parents[child] = Some(parent);
        }
    }
    let order = top_down(&parents);
    if order.len() != models.len() {
        return Err(Error::new(
            ErrorKind::Malformed,
            "found models that are their own ancestors, expected a tree",
        ));
    }
    let number = |name: &str, missing: f64| global.get(name.as_bytes()).map_or(missing, |v| v[0]);
    let metres = (number("UnitScaleFactor", 1.0) / 100.0) as f32;
    let metres = if metres.is_finite() && metres > 0.0 { metres } else { 0.01 };
    let z_up = number("UpAxis", 1.0) == 2.0;

    let mut place = vec![None; models.len()];
    let mut above = vec![None; models.len()];
    let mut whole: Vec<Trs> = Vec::with_capacity(models.len());
    for model in &models {
        whole.push(local(&model.settings).map_err(|e| e.in_entry(String::from_utf8_lossy(model.name)))?);
    }
    let mut joints: Vec<FileJoint> = Vec::new();
    for i in order {
        if let Some(p) = parents[i] {
            if models[p].is_limb {
                above[i] = place[p];
            } else {
                above[i] = above[p];
                whole[i] = compose(&whole[p], &whole[i]);
            }
        }
        if models[i].is_limb {
            let mut rest = whole[i];
            if above[i].is_none() {
                // As if below a node that is scaled to metres: see `to_model`.
                rest.translation *= metres;
                rest.scale *= metres;
            }
            place[i] = Some(joints.len());
            let name = String::from_utf8_lossy(models[i].name).into_owned();
            joints.push(FileJoint { name, parent: above[i], rest });
        }
    }
    let ours = creator.windows(5).any(|w| w == b"anim2");
    let hint = match (z_up, ours) {
        (true, _) => Hint::Sure(Turn::NoJoint),
        (false, true) => Hint::Sure(Turn::EveryJoint),
        (false, false) => Hint::Likely(Turn::TopJoints),
    };
    to_model(name, joints, hint, ids)
}

/// The next record of a list, or `None` at its end.
fn record<'a>(c: &mut Cursor<'a>, wide: bool, depth: u32) -> Result<Option<Record<'a>>> {
    let at = c.offset();
    let word = |c: &mut Cursor, what: &str| if wide { c.u64(what) } else { c.u32(what).map(u64::from) };
    if depth > MAX_DEPTH {
        return Err(Error::limit(at, "records in records", format_args!("{MAX_DEPTH} levels")));
    }
    if c.left() == 0 {
        return Ok(None);
    }
    let end = word(c, "the end of a record")?;
    let count = word(c, "a property count")?;
    let size = word(c, "the bytes of properties")?;
    let name_len = c.u8("the length of a name")?;
    if end == 0 {
        return Ok(None);
    }
    let name = c.take(usize::from(name_len), "a record's name")?;
    let size = usize::try_from(size).map_err(|_| Error::limit(at, size, "bytes of properties"))?;
    let mut list = Cursor::new(c.take(size, "properties")?, c.offset());
    let mut properties = Vec::new();
    for _ in 0..count {
        match property(&mut list)? {
            Some(value) => properties.push(value),
            None => break,
        }
    }
    let below = end.checked_sub(c.offset()).and_then(|n| usize::try_from(n).ok()).ok_or_else(|| {
        Error::malformed(at, format_args!("a record that ends at 0x{end:X}"), "an end behind its properties")
    })?;
    let base = c.offset();
    let below = Cursor::new(c.take(below, "a record's records")?, base);
    Ok(Some(Record { name, properties, below }))
}

/// One property: a type letter and its value. `None` where none is left.
fn property<'a>(c: &mut Cursor<'a>) -> Result<Option<Value<'a>>> {
    if c.left() == 0 {
        return Ok(None);
    }
    let at = c.offset();
    Ok(Some(match c.u8("a property type")? {
        b'C' | b'B' => Value::Number(f64::from(c.u8("a flag")?)),
        b'Y' => Value::Number(f64::from(c.i16("a property")?)),
        b'I' => Value::Id(i64::from(c.i32("a property")?)),
        b'F' => Value::Number(f64::from(c.f32("a property")?)),
        b'D' => Value::Number(f64::from_le_bytes(c.array("a property")?)),
        b'L' => Value::Id(c.i64("a property")?),
        b'S' => {
            let n = c.u32("the length of a text")? as usize;
            Value::Text(c.take(n, "a text")?)
        }
        b'R' => {
            let n = c.u32("the length of raw bytes")? as usize;
            c.skip(n, "raw bytes")?;
            Value::Other
        }
        kind @ (b'f' | b'd' | b'l' | b'i' | b'b' | b'c') => {
            let n = c.u32("the length of an array")? as usize;
            let encoding = c.u32("the encoding of an array")?;
            let packed = c.u32("the packed size of an array")? as usize;
            let width = match kind {
                b'd' | b'l' => 8,
                b'f' | b'i' => 4,
                _ => 1,
            };
            match encoding {
                0 => c.take_items(n, width, "an array").map(|_| ())?,
                _ => c.skip(packed, "a packed array")?,
            }
            Value::Other
        }
        other => {
            return Err(Error::malformed(at, format_args!("property type 0x{other:02X}"), "a known one"));
        }
    }))
}

/// The numbers of the `Properties70` among the records of `below`: name, three texts, then values.
fn settings<'a>(below: &mut Cursor<'a>, wide: bool) -> Result<Settings<'a>> {
    let mut out = Settings::new();
    while let Some(mut list) = record(below, wide, 2)? {
        if list.name != b"Properties70" {
            continue;
        }
        while let Some(p) = record(&mut list.below, wide, 3)? {
            let (Some(Value::Text(name)), Some(values)) = (p.properties.first(), p.properties.get(4..))
            else {
                continue;
            };
            let mut numbers = [0.0; 3];
            let mut any = false;
            for (slot, value) in numbers.iter_mut().zip(values) {
                if let Some(v) = value.number() {
                    *slot = v;
                    any = true;
                }
            }
            if any {
                out.insert(name, numbers);
            }
        }
    }
    Ok(out)
}

fn local(settings: &Settings) -> Result<Trs> {
    let get = |name: &str, missing: [f64; 3]| settings.get(name.as_bytes()).copied().unwrap_or(missing);
    let translation = get("Lcl Translation", [0.0; 3]);
    let scale = get("Lcl Scaling", [1.0; 3]);
    let degrees = get("Lcl Rotation", [0.0; 3]);
    let rotation = if get("RotationActive", [0.0; 3])[0] != 0.0 {
        let order = get("RotationOrder", [0.0; 3])[0];
        let pre = euler(get("PreRotation", [0.0; 3]), 0.0);
        let post = euler(get("PostRotation", [0.0; 3]), 0.0);
        pre * euler(degrees, order) * post.inverse()
    } else {
        euler(degrees, 0.0)
    };
    let vector = |v: [f64; 3]| DVec3::from_array(v).as_vec3();
    let trs = Trs {
        translation: vector(translation),
        rotation: rotation.normalize().as_quat(),
        scale: vector(scale),
    };
    if trs.translation.is_finite()
        && trs.rotation.is_finite()
        && trs.scale.is_finite()
        && trs.scale != Vec3::ZERO
    {
        Ok(trs)
    } else {
        Err(Error::new(ErrorKind::Malformed, "found a transform that is no number, expected numbers"))
    }
}

/// Rotations about the axes in the order of FBX's `RotationOrder`: 0 is X first, then Y, then Z.
fn euler(degrees: [f64; 3], order: f64) -> DQuat {
    let about = |i: usize| {
        let (sin, cos) = libm::sincos(degrees[i].to_radians() * 0.5);
        let mut q = [0.0, 0.0, 0.0, cos];
        q[i] = sin;
        DQuat::from_array(q)
    };
    let [first, second, third] = match order as i64 {
        1 => [0, 2, 1],
        2 => [1, 2, 0],
        3 => [1, 0, 2],
        4 => [2, 0, 1],
        5 => [2, 1, 0],
        _ => [0, 1, 2],
    };
    about(third) * about(second) * about(first)
}
