//! Lays JSON out for a reviewer: what is short stands on one line, so that a diff shows the accessor, the
//! channel or the node that changed, and no more.

/// A container up to this many bytes of compact text stays on its line: an accessor with bounds, a node.
const LINE: usize = 200;

/// Compact JSON to JSON with one short container a line and an indent of two.
pub fn one_container_a_line(compact: &str) -> String {
    let bytes = compact.as_bytes();
    let ends = container_ends(bytes);
    let mut out = String::with_capacity(compact.len() * 5 / 4);
    let mut depth = 0;
    let mut i = 0;
    let newline = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while i < bytes.len() {
        match bytes[i] {
            b'{' | b'[' => {
                let end = ends.get(&i).copied().unwrap_or(bytes.len() - 1);
                if end - i < LINE {
                    out.push_str(&compact[i..=end]);
                    i = end;
                } else {
                    out.push(bytes[i] as char);
                    depth += 1;
                    newline(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth -= 1;
                newline(&mut out, depth);
                out.push(bytes[i] as char);
            }
            b',' => {
                out.push(',');
                newline(&mut out, depth);
            }
            b':' => out.push_str(": "),
            b'"' => {
                let end = string_end(bytes, i);
                out.push_str(&compact[i..=end]);
                i = end;
            }
            _ => {
                let start = i;
                while i + 1 < bytes.len() && !matches!(bytes[i + 1], b',' | b'}' | b']') {
                    i += 1;
                }
                out.push_str(&compact[start..=i]);
            }
        }
        i += 1;
    }
    out.push('\n');
    out
}

/// For each opening bracket the place of its closing one.
fn container_ends(bytes: &[u8]) -> std::collections::HashMap<usize, usize> {
    let mut ends = std::collections::HashMap::new();
    let mut open = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'"' => i = string_end(bytes, i),
            b'{' | b'[' => open.push(i),
            b'}' | b']' => {
                if let Some(start) = open.pop() {
                    ends.insert(start, i);
                }
            }
            _ => {}
        }
        i += 1;
    }
    ends
}

/// The place of the quote that ends the string that starts at `i`.
fn string_end(bytes: &[u8], mut i: usize) -> usize {
    i += 1;
    while i < bytes.len() && bytes[i] != b'"' {
        i += if bytes[i] == b'\\' { 2 } else { 1 };
    }
    i.min(bytes.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::one_container_a_line;

    #[test]
    fn the_layout_changes_no_value() {
        let long = format!(
            r#"{{"a":[{}],"s":"x,]}}\"[{{:","e":{{}},"n":-1.5e-7,"o":{{"k":[1,2],"t":true,"z":"{}"}}}}"#,
            (0..100).map(|i| i.to_string()).collect::<Vec<_>>().join(","),
            "y".repeat(300),
        );
        let laid = one_container_a_line(&long);
        let before: serde_json::Value = serde_json::from_str(&long).expect("valid");
        let after: serde_json::Value = serde_json::from_str(&laid).expect("still valid");
        assert_eq!(before, after);
        assert!(laid.lines().count() > 100 && laid.contains("\"k\": [1,2]"));
    }
}
