//! Amounts of bytes on the command line: `500MB`, `1GB`, `64MiB`, or a bare number of bytes.

/// Reads an amount; the error is a sentence for the user.
pub fn parse(text: &str) -> Result<u64, String> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "k" | "kb" => Some(1_000),
        "m" | "mb" => Some(1_000_000),
        "g" | "gb" => Some(1_000_000_000),
        "t" | "tb" => Some(1_000_000_000_000),
        "kib" => Some(1 << 10),
        "mib" => Some(1 << 20),
        "gib" => Some(1 << 30),
        "tib" => Some(1 << 40),
        _ => None,
    };
    let bytes = scale.and_then(|scale: u64| number.parse::<u64>().ok()?.checked_mul(scale)).filter(|&bytes| bytes > 0);
    bytes.ok_or_else(|| format!("`{text}` is no size; write 1GB, 500MB or a number of bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_unit() {
        let pairs = [("1", 1), ("500MB", 500_000_000), ("2 gb", 2_000_000_000), ("64MiB", 64 << 20), ("1k", 1000)];
        for (text, bytes) in pairs {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for bad in ["", "0", "MB", "-1", "1.5GB", "1 parsec", "99999999999TB"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
