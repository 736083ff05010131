//! A small tree over an XML text: what CodeWalker's forms need. Nothing is copied but text with entities.
//!
//! The events are quick-xml's, the tree is kept here: every error names a byte offset in the file, which
//! roxmltree gives as line and column, and long lists of numbers stay slices of the text until they are asked for.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use quick_xml::events::Event;
use quick_xml::events::attributes::Attributes;
use quick_xml::{Reader, XmlVersion};

use crate::error::{Error, Result};

/// Deepest nesting that is followed; CodeWalker's forms have about ten levels.
const MAX_DEPTH: usize = 256;
/// No next sibling, no child.
const NONE: u32 = u32::MAX;

/// A parsed text.
#[derive(Debug)]
pub struct Xml<'a> {
    nodes: Vec<Node<'a>>,
}

#[derive(Debug)]
struct Node<'a> {
    /// What stands between `<` and `>` without the slash of an empty element.
    tag: &'a str,
    name_len: u32,
    first: u32,
    next: u32,
    /// What stands between the opening and the closing tag.
    content: &'a str,
    offset: u64,
}

/// An element.
#[derive(Debug, Clone, Copy)]
pub struct Element<'x, 'a> {
    xml: &'x Xml<'a>,
    index: u32,
}

impl<'a> Xml<'a> {
    /// Parses UTF-8 text, with or without a byte order mark.
    ///
    /// # Errors
    /// Malformed: other text, tags that do not match, no element.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|e| {
            Error::malformed(e.valid_up_to() as u64, "bytes that are no UTF-8", "XML text in UTF-8")
        })?;
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let skipped = bytes.len() - text.len();
        let mut reader = Reader::from_str(text);
        let mut nodes: Vec<Node> = Vec::new();
        // Open elements: index and where their content begins; the last child of each is on its own stack.
        let mut open: Vec<(u32, usize)> = Vec::new();
        let mut last: Vec<u32> = vec![NONE];
        loop {
            let start = reader.buffer_position() as usize;
            let event = reader.read_event();
            let end = reader.buffer_position() as usize;
            let offset = (skipped + start) as u64;
            let event = event.map_err(|e| {
                Error::malformed(
                    reader.error_position() + skipped as u64,
                    format_args!("{e}"),
                    "well-formed XML",
                )
            })?;
            match event {
                Event::Start(e) | Event::Empty(e) => {
                    let tag = text.get(start..end).and_then(|t| t.strip_prefix('<')?.strip_suffix('>'));
                    let tag = tag.unwrap_or_default();
                    let is_empty = tag.len() > e.len();
                    let index = nodes.len() as u32;
                    if nodes.len() >= NONE as usize || open.len() >= MAX_DEPTH {
                        return Err(Error::limit(
                            offset,
                            format_args!("element {index} at depth {}", open.len()),
                            format_args!("at most {NONE} elements, {MAX_DEPTH} deep"),
                        ));
                    }
                    if let (Some(previous), Some(slot)) = (last.last_mut(), Some(index)) {
                        if *previous != NONE {
                            nodes[*previous as usize].next = slot;
                        } else if let Some((parent, _)) = open.last() {
                            nodes[*parent as usize].first = slot;
                        }
                        *previous = slot;
                    }
                    nodes.push(Node {
                        tag: &tag[..e.len().min(tag.len())],
                        name_len: e.name().as_ref().len() as u32,
                        first: NONE,
                        next: NONE,
                        content: "",
                        offset,
                    });
                    if !is_empty {
                        open.push((index, end));
                        last.push(NONE);
                    }
                }
                Event::End(_) => {
                    if let Some((index, begin)) = open.pop() {
                        nodes[index as usize].content = text.get(begin..start).unwrap_or_default();
                        last.pop();
                    }
                }
                Event::Eof => break,
                _ => {}
            }
        }
        if let Some((index, _)) = open.last() {
            let node = &nodes[*index as usize];
            return Err(Error::malformed(
                node.offset,
                format_args!("<{}> without its end", node.name()),
                "a whole text",
            ));
        }
        if nodes.is_empty() {
            return Err(Error::malformed(0, "no element", "XML text"));
        }
        Ok(Xml { nodes })
    }

    /// The first element.
    pub fn root(&self) -> Element<'_, 'a> {
        Element { xml: self, index: 0 }
    }
}

impl<'a> Node<'a> {
    fn name(&self) -> &'a str {
        self.tag.get(..self.name_len as usize).unwrap_or_default()
    }
}

impl<'x, 'a> Element<'x, 'a> {
    fn node(&self) -> &'x Node<'a> {
        &self.xml.nodes[self.index as usize]
    }

    /// The tag's name.
    pub fn name(&self) -> &'a str {
        self.node().name()
    }

    /// Where the element begins in the text.
    pub fn offset(&self) -> u64 {
        self.node().offset
    }

    /// Its children.
    pub fn children(&self) -> impl Iterator<Item = Element<'x, 'a>> + use<'x, 'a> {
        let xml = self.xml;
        let mut next = self.node().first;
        std::iter::from_fn(move || {
            let node = xml.nodes.get(next as usize)?;
            let element = Element { xml, index: next };
            next = node.next;
            Some(element)
        })
    }

    /// Its first child of this name.
    pub fn child(&self, name: &str) -> Option<Element<'x, 'a>> {
        self.children().find(|c| c.name() == name)
    }

    /// Its first child of this name.
    ///
    /// # Errors
    /// Malformed where there is none.
    pub fn need(&self, name: &str) -> Result<Element<'x, 'a>> {
        self.child(name).ok_or_else(|| self.bad("none", format_args!("a <{name}>")))
    }

    /// The `<Item>` children of its child of this name; nothing where that is not there.
    pub fn items(&self, name: &str) -> impl Iterator<Item = Element<'x, 'a>> + use<'x, 'a> {
        self.child(name).into_iter().flat_map(|list| list.children()).filter(|c| c.name() == "Item")
    }

    /// Its text, entities resolved, white space around it left out.
    ///
    /// # Errors
    /// Malformed: an entity that is not known.
    pub fn text(&self) -> Result<Cow<'a, str>> {
        let content = self.node().content;
        let unescape = |text: &'a str| {
            quick_xml::escape::unescape(text).map_err(|e| self.bad(e, "text with known entities"))
        };
        if !content.contains('<') {
            return unescape(content.trim());
        }
        // Comments, CDATA or children between: only what stands at the top.
        let mut out = String::new();
        let (mut depth, mut rest) = (0_usize, content);
        while let Some(at) = rest.find('<') {
            if depth == 0 {
                out.push_str(&unescape(&rest[..at])?);
            }
            let markup = &rest[at..];
            let (end, text) = if let Some(body) = markup.strip_prefix("<![CDATA[") {
                let end = body.find("]]>").unwrap_or(body.len());
                (end + 12, &body[..end])
            } else if markup.starts_with("<!--") {
                (markup.find("-->").map_or(markup.len(), |n| n + 3), "")
            } else {
                let end = markup.find('>').map_or(markup.len(), |n| n + 1);
                if markup.starts_with("</") {
                    depth = depth.saturating_sub(1);
                } else if !markup[..end].ends_with("/>") && !markup.starts_with("<?") {
                    depth += 1;
                }
                (end, "")
            };
            if depth == 0 {
                out.push_str(text);
            }
            rest = markup.get(end..).unwrap_or_default();
        }
        out.push_str(&unescape(rest)?);
        Ok(Cow::Owned(out.trim().to_owned()))
    }

    /// The text of its child of this name; empty where there is none.
    ///
    /// # Errors
    /// See [`Element::text`].
    pub fn child_text(&self, name: &str) -> Result<Cow<'a, str>> {
        self.child(name).map_or(Ok(Cow::Borrowed("")), |c| c.text())
    }

    /// An attribute, entities resolved.
    ///
    /// # Errors
    /// Malformed: attributes that are no attributes.
    pub fn attribute(&self, name: &str) -> Result<Option<Cow<'a, str>>> {
        let node = self.node();
        for attribute in Attributes::new(node.tag, node.name_len as usize) {
            let attribute = attribute.map_err(|e| self.bad(e, "attributes"))?;
            if attribute.key.as_ref() == name {
                let value = attribute
                    .normalized_value(XmlVersion::Implicit1_0)
                    .map_err(|e| self.bad(e, "a value with known entities"))?;
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// A number in an attribute.
    ///
    /// # Errors
    /// Malformed: no such attribute, or no number.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<T> {
        let text = self
            .attribute(name)?
            .ok_or_else(|| self.bad("none", format_args!("the attribute \"{name}\"")))?;
        text.trim()
            .parse()
            .map_err(|_| self.bad(format_args!("{name}=\"{text}\""), std::any::type_name::<T>()))
    }

    /// The number in the attribute `value` of the child of this name.
    ///
    /// # Errors
    /// Malformed: no such child, or see [`Element::number`].
    pub fn value<T: FromStr>(&self, child: &str) -> Result<T> {
        self.need(child)?.number("value")
    }

    /// As [`Element::value`]; `missing` where there is no such child.
    ///
    /// # Errors
    /// See [`Element::number`].
    pub fn value_or<T: FromStr>(&self, child: &str, missing: T) -> Result<T> {
        self.child(child).map_or(Ok(missing), |c| c.number("value"))
    }

    /// Numbers in attributes, for example `["x", "y", "z"]`.
    ///
    /// # Errors
    /// See [`Element::number`].
    pub fn numbers<const N: usize>(&self, names: [&str; N]) -> Result<[f32; N]> {
        let mut out = [0.0; N];
        for (slot, name) in out.iter_mut().zip(names) {
            *slot = self.number(name)?;
        }
        Ok(out)
    }

    /// An error at this element.
    #[cold]
    pub fn bad(&self, found: impl Display, expected: impl Display) -> Error {
        Error::malformed(self.offset(), format_args!("{found} in <{}>", self.name()), expected)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tree_text_and_attributes() {
        let text = "\u{FEFF}<?xml version=\"1.0\"?>\r\n<!-- c --><A x=\"1\">\n<B value=\"-1E-05\" />\n<C>a &amp; <!-- n -->b<![CDATA[<&>]]></C><List><Item>1 2</Item><Item/></List></A>";
        let xml = Xml::parse(text.as_bytes()).unwrap();
        let root = xml.root();
        assert_eq!((root.name(), root.children().count()), ("A", 3));
        assert_eq!(root.value::<f32>("B").unwrap(), -1e-5);
        assert_eq!(root.number::<u8>("x").unwrap(), 1);
        assert_eq!(root.child_text("C").unwrap(), "a & b<&>");
        let items: Vec<_> = root.items("List").map(|i| i.text().unwrap()).collect();
        assert_eq!(items, ["1 2", ""]);
        assert_eq!(root.child("B").unwrap().offset() as usize, text.find("<B").unwrap());
        let e = root.value::<u32>("B").unwrap_err();
        assert!(e.to_string().contains("-1E-05"), "{e}");
        assert!(root.need("D").is_err());
    }

    #[test]
    fn damaged_text() {
        let text = "<A><B value=\"1\">t&amp;</B><C/><!-- x --></A>";
        for n in 0..text.len() {
            assert!(Xml::parse(&text.as_bytes()[..n]).is_err(), "{n}");
        }
        for bad in ["", "x", "<A></B>", "<A><B></A></B>", "\u{0}", "<A"] {
            assert!(Xml::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(Xml::parse(&[b'<', 0xFF, b'>']).is_err());
        assert!(Xml::parse("<a>".repeat(1000).as_bytes()).is_err());
        let mut bytes = text.as_bytes().to_vec();
        for i in 0..bytes.len() {
            for bit in 0..8 {
                bytes[i] ^= 1 << bit;
                if let Ok(xml) = Xml::parse(&bytes) {
                    for c in xml.root().children() {
                        let _ = (c.text(), c.number::<f32>("value"));
                    }
                }
                bytes[i] ^= 1 << bit;
            }
        }
    }
}
