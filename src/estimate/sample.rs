//! A tensor of a sample: `3x224x224:f32`.

use std::fmt;
use std::str::FromStr;

/// Shape and element type of one tensor of a sample, without the batch dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    text: String,
    bytes: u64,
}

/// Names of element types, with PyTorch's own, and their sizes in bytes.
const TYPES: &[(&[&str], u64)] = &[
    (&["bool", "u8", "uint8", "i8", "int8", "f8", "float8_e4m3fn", "float8_e5m2"], 1),
    (&["f16", "float16", "half", "bf16", "bfloat16", "i16", "int16", "short", "u16", "uint16"], 2),
    (&["f32", "float32", "float", "i32", "int32", "int", "u32", "uint32"], 4),
    (&["f64", "float64", "double", "i64", "int64", "long", "u64", "uint64", "c64", "complex64"], 8),
    (&["c128", "complex128"], 16),
];

impl Sample {
    /// Bytes of its content.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Sample {
    type Err = String;

    /// `SHAPE:TYPE`. An empty shape is a scalar; without `:TYPE` it is f32, as for most tensors.
    fn from_str(text: &str) -> Result<Sample, String> {
        if text.trim().is_empty() {
            return Err("expected a shape and a type, such as 3x224x224:f32, or :i64 for a number".into());
        }
        let (shape, kind) = text.split_once(':').unwrap_or((text, "f32"));
        let kind = kind.trim().trim_start_matches("torch.").to_ascii_lowercase();
        let size =
            TYPES.iter().find(|(names, _)| names.contains(&kind.as_str())).map(|(_, size)| *size).ok_or_else(|| {
                format!("no element type is called {kind:?}; there are f16 bf16 f32 f64 u8 i32 i64 and others")
            })?;
        let mut bytes = size;
        if !shape.trim().is_empty() {
            for side in shape.split(['x', 'X', '*', ',']) {
                let side: u64 = side.trim().parse().map_err(|_| {
                    "expected a shape and a type, such as 3x224x224:f32, or :i64 for a number".to_owned()
                })?;
                bytes = bytes.checked_mul(side).ok_or("a sample beyond 16 EiB")?;
            }
        }
        Ok(Sample { text: text.to_owned(), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> Option<u64> {
        text.parse::<Sample>().ok().map(|sample| sample.bytes())
    }

    #[test]
    fn shapes_and_types_are_read() {
        for (text, bytes) in [
            ("3x224x224:f32", 602_112),
            ("3x224x224", 602_112),
            ("3,224,224:torch.bfloat16", 301_056),
            ("10:u8", 10),
            ("10:bool", 10),
            (":i64", 8),
            (":f64", 8),
            ("0x7:c128", 0),
            ("2:c64", 16),
            ("5:F16", 10),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn all_else_is_refused() {
        for text in ["", "3x:f32", "3x224x-1:f32", "3:f33", "3:f32:f32", "a:f32", "99999999999x99999999999:f32"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
