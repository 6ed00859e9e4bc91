//! Text from outside made safe for a terminal.
//!
//! A URL or a header may hold terminal escape sequences, which move the cursor, change what was
//! printed before or answer as if typed; line ends, which forge a line of the program; and marks
//! that reverse the direction of writing. Such characters are printed as their number. Output for
//! programs is never changed.

use std::fmt::Write;

/// The text of `bytes`; unsafe characters and bytes that are not UTF-8 become `\x1b`, `\u{202e}`.
pub fn plain(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let _ = match c {
                c if c.is_ascii_control() => write!(out, "\\x{:02x}", u32::from(c)),
                c if c.is_control() || turns_writing(c) => write!(out, "\\u{{{:x}}}", u32::from(c)),
                c => out.write_char(c),
            };
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Returns whether a character changes the direction of the text around it, or ends a line without
/// being a control character.
fn turns_writing(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_by_its_number() {
        assert_eq!(plain("http://a/ü?q=\"日本\" \\".as_bytes()), "http://a/ü?q=\"日本\" \\", "text stays text");
        assert_eq!(plain(b"\x1b[2Jx\r\n\t\0\x7f"), "\\x1b[2Jx\\x0d\\x0a\\x09\\x00\\x7f");
        assert_eq!(plain("\u{9b}31m\u{202e}cod.exe".as_bytes()), "\\u{9b}31m\\u{202e}cod.exe");
        assert_eq!(plain(b"\xff\x9b\xc3("), "\\xff\\x9b\\xc3(");
    }

    #[test]
    fn nothing_that_is_shown_is_a_control_character() {
        let every: Vec<u8> = (0..=255).chain((0..=255).flat_map(|byte| [0xc2, byte])).collect();
        assert!(!plain(&every).chars().any(|c| c.is_control() || turns_writing(c)));
    }
}
