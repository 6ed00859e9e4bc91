//! Authorization: tokens with rights.
//!
//! Invariant: a token is compared in constant time, and only by its digest; no token is kept as
//! text, printed or logged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The shortest token, in characters.
const MIN_TOKEN: usize = 16;

/// Rights of a token; each right includes those before it.
///
/// ```
/// use filemap_http::server::Right;
/// assert!(Right::Admin > Right::Write && Right::Write > Right::Read);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Reading of pages, lists and figures.
    Read,
    /// Putting pages.
    Write,
    /// Removing pages.
    Admin,
}

/// Tokens with their rights.
///
/// ```
/// use filemap_http::server::Tokens;
///
/// let tokens = Tokens::parse("# of the crawlers\nwrite 1d6cfd3b8a4e4f0c\n")?;
/// # let _ = tokens;
/// assert!(Tokens::parse("write short").is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct Tokens(Vec<(Right, [u8; 32])>);

impl Tokens {
    /// Parses tokens, a line each: `read`, `write` or `admin`, then the token. Empty lines and
    /// lines that begin with `#` are skipped. The error is a message for the user, with the line.
    ///
    /// # Errors
    ///
    /// A word other than these three, a token of fewer than 16 characters, or no token.
    pub fn parse(text: &str) -> Result<Tokens, String> {
        let mut tokens = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = at + 1;
            let Some((right, token)) = line.split_once([' ', '\t']) else {
                return Err(format!("line {at} of the tokens: write `read`, `write` or `admin`, then the token"));
            };
            let right = match right {
                "read" => Right::Read,
                "write" => Right::Write,
                "admin" => Right::Admin,
                other => {
                    return Err(format!("line {at} of the tokens: `{other}` is not `read`, `write` or `admin`"));
                }
            };
            let token = token.trim();
            if token.len() < MIN_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!(
                    "line {at} of the tokens: a token must have {MIN_TOKEN} or more visible ASCII characters"
                ));
            }
            tokens.push((right, digest(token.as_bytes())));
        }
        if tokens.is_empty() {
            return Err("there is no token: write lines such as `read TOKEN`".to_owned());
        }
        Ok(Tokens(tokens))
    }

    /// The right given by an `Authorization` header: by a bearer token, or by a token as the
    /// password of a browser's dialogue.
    pub(super) fn right_of(&self, authorization: &[u8]) -> Option<Right> {
        let (scheme, rest) = std::str::from_utf8(authorization).ok()?.split_once(' ')?;
        let token = match scheme.to_ascii_lowercase().as_str() {
            "bearer" => rest.trim().as_bytes().to_vec(),
            "basic" => {
                let pair = STANDARD.decode(rest.trim()).ok()?;
                pair[pair.iter().position(|byte| *byte == b':')? + 1..].to_vec()
            }
            _ => return None,
        };
        let found = digest(&token);
        // Compares all, even after a match.
        let fitting = |best: Option<Right>, (right, own): &(Right, [u8; 32])| {
            if bool::from(own.ct_eq(&found)) { best.max(Some(*right)) } else { best }
        };
        self.0.iter().fold(None, fitting)
    }
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: &str = "0123456789abcdef";
    const ADMIN: &str = "fedcba9876543210";

    #[test]
    fn a_token_gives_its_right_in_either_form() {
        let tokens = Tokens::parse(&format!("# tokens\n\nread\t{READ}\n admin  {ADMIN} \n")).unwrap();
        let right = |header: String| tokens.right_of(header.as_bytes());
        assert_eq!(right(format!("Bearer {READ}")), Some(Right::Read));
        assert_eq!(right(format!("bearer  {ADMIN}")), Some(Right::Admin));
        let basic = |pair: String| format!("Basic {}", STANDARD.encode(pair));
        assert_eq!(right(basic(format!("anyone:{ADMIN}"))), Some(Right::Admin));
        for wrong in [
            format!("Bearer {READ}0"),
            format!("Bearer {}", &READ[1..]),
            "Bearer ".to_owned(),
            READ.to_owned(),
            format!("Digest {READ}"),
            basic(READ.to_owned()),
            basic(format!("{READ}:")),
            "Basic ???".to_owned(),
        ] {
            assert_eq!(right(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, words) in [
            ("", "no token"),
            ("# only this", "no token"),
            ("read", "line 1"),
            ("read 0123456789abcdef\nroot 0123456789abcdef", "line 2"),
            ("read 0123456789abcde", "16"),
            ("read 0123456789 abcdef", "visible"),
        ] {
            let error = Tokens::parse(text).err().unwrap_or_default();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }
}
