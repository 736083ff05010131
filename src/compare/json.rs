//! JSON by meaning: the order of fields does not matter, floats are equal within their rounding.

use serde_json::Value;

/// Two roundings of f32, relative: as far as equal numbers of two programs lie apart.
pub const FLOAT_ROUNDING: f64 = 2.4e-7;

/// One difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Where: `a.b[3].c`.
    pub path: String,
    /// What was there.
    pub old: Option<Value>,
    /// What is there now.
    pub new: Option<Value>,
    /// How many more places of the same array differ.
    pub more: usize,
}

/// Whether two floats are equal within rounding.
pub fn same_float(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= FLOAT_ROUNDING * a.abs().max(b.abs())
}

fn same_number(a: &serde_json::Number, b: &serde_json::Number) -> bool {
    let whole = |n: &serde_json::Number| n.is_i64() || n.is_u64();
    if whole(a) && whole(b) {
        return a == b;
    }
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => same_float(a, b),
        _ => a == b,
    }
}

/// Whether two values mean the same.
pub fn same(a: &Value, b: &Value) -> bool {
    let mut found = Vec::new();
    compare(a, b, "", &mut found);
    found.is_empty()
}

/// Appends the differences between `old` and `new`. Of a list of numbers the first place alone is named.
pub fn compare(old: &Value, new: &Value, path: &str, out: &mut Vec<Difference>) {
    let differ = |out: &mut Vec<Difference>| {
        out.push(Difference {
            path: path.to_owned(),
            old: Some(old.clone()),
            new: Some(new.clone()),
            more: 0,
        });
    };
    match (old, new) {
        (Value::Number(a), Value::Number(b)) => {
            if !same_number(a, b) {
                differ(out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let plain = a.iter().chain(b).all(|v| !v.is_object());
            let start = out.len();
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                compare(a, b, &format!("{path}[{i}]"), out);
            }
            if plain && out.len() > start + 1 {
                out[start].more = out.len() - start - 1;
                out.truncate(start + 1);
            }
        }
        (Value::Array(a), Value::Array(b)) => out.push(Difference {
            path: format!("{path}.length"),
            old: Some(a.len().into()),
            new: Some(b.len().into()),
            more: 0,
        }),
        (Value::Object(a), Value::Object(b)) => {
            let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            for (key, a) in a {
                match b.get(key) {
                    Some(b) => compare(a, b, &below(key), out),
                    None => {
                        out.push(Difference { path: below(key), old: Some(a.clone()), new: None, more: 0 })
                    }
                }
            }
            for (key, b) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                out.push(Difference { path: below(key), old: None, new: Some(b.clone()), more: 0 });
            }
        }
        (a, b) if a == b => {}
        _ => differ(out),
    }
}

/// A value as a report quotes it.
pub fn quote(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn order_and_rounding_do_not_matter_and_the_rest_does() {
        let a = json!({"a": 0.1f32, "b": [1, 2, {"c": "x"}], "n": 18446744073709551615u64});
        let b: Value =
            serde_json::from_str(r#"{"n":18446744073709551615,"b":[1,2,{"c":"x"}],"a":0.1}"#).unwrap();
        assert!(same(&a, &b));
        let c: Value =
            serde_json::from_str(r#"{"n":18446744073709551614,"b":[1,2.5,{"c":"y"}],"a":0.10001,"d":null}"#)
                .unwrap();
        let mut found = Vec::new();
        compare(&a, &c, "", &mut found);
        let paths: Vec<&str> = found.iter().map(|d| d.path.as_str()).collect();
        assert_eq!(paths, ["a", "b[1]", "b[2].c", "n", "d"]);
        let mut found = Vec::new();
        compare(&json!({"v": [1, 2, 3]}), &json!({"v": [1, 5, 6]}), "", &mut found);
        assert_eq!((found.len(), found[0].path.as_str(), found[0].more), (1, "v[1]", 1));
    }
}
