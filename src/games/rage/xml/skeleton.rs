//! Skeletons in CodeWalker's XML forms: .ydr.xml, .ydd.xml, .yft.xml (docs/formats/rage.md, section 11).
//!
//! ```text
//! Drawable | DrawableDictionary / Item | Fragment / Drawable
//!   Skeleton / Bones / Item
//!     Name (text)  Tag, Index, ParentIndex @value  Rotation @x y z w  Translation, Scale @x y z
//! ```

use crate::error::{Error, Result};
use crate::games::rage::skeleton::{Bone, build};
use crate::games::rage::xml::tree::{Element, Xml};
use crate::model::SkeletonFile;

/// Reads the skeleton of an XML form: of several the one with most bones, the first of equals.
///
/// # Errors
/// Malformed, with the offset in the text; Unsupported where the form holds no skeleton or is another.
pub fn read(bytes: &[u8], name: &str) -> Result<SkeletonFile> {
    let xml = Xml::parse(bytes)?;
    let root = xml.root();
    let drawables: Vec<Element> = match root.name() {
        "Drawable" => vec![root],
        "DrawableDictionary" => root.children().filter(|c| c.name() == "Item").collect(),
        "Fragment" => root
            .children()
            .filter(|c| matches!(c.name(), "Drawable" | "ClothDrawable" | "DrawableCloth"))
            .chain(root.child("DrawableArray").into_iter().flat_map(|d| d.children()))
            .collect(),
        other => {
            return Err(Error::unsupported(format!(
                "found <{other}>, expected a CodeWalker form: Drawable, DrawableDictionary or Fragment"
            ))
            .at(root.offset()));
        }
    };
    let lists: Vec<Vec<Element>> = drawables
        .iter()
        .filter_map(|d| d.child("Skeleton"))
        .map(|s| s.items("Bones").collect())
        .filter(|bones: &Vec<Element>| !bones.is_empty())
        .collect();
    let mut notes = Vec::new();
    let Some(items) = lists.iter().rev().max_by_key(|bones| bones.len()) else {
        return Err(Error::unsupported(format!(
            "found no skeleton in <{}>; the skeleton of a ped stands in its .yft.xml",
            root.name()
        )));
    };
    if lists.len() > 1 {
        notes.push(format!("{} skeletons: the one with most bones ({}) is taken", lists.len(), items.len()));
    }
    let mut bones = Vec::with_capacity(items.len());
    // Parents are indices of bones, which stand in this order; Index says the same where it is there.
    for (i, item) in items.iter().enumerate() {
        let index: usize = item.value_or("Index", i)?;
        if index != i {
            return Err(
                item.bad(format_args!("bone {index} at place {i}"), "bones in the order of their index")
            );
        }
        bones.push(Bone {
            name: item.child_text("Name")?.into_owned(),
            tag: item.value("Tag")?,
            parent: item.value("ParentIndex")?,
            rotation: item.need("Rotation")?.numbers(["x", "y", "z", "w"])?,
            translation: item.need("Translation")?.numbers(["x", "y", "z"])?,
            scale: item.child("Scale").map_or(Ok([1.0; 3]), |s| s.numbers(["x", "y", "z"]))?,
        });
    }
    let skeleton = build(name, bones, &mut notes)?;
    Ok(SkeletonFile { skeleton, notes })
}
