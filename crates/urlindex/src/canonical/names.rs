//! Names of query parameters that carry sessions or tracking.
//!
//! Listed names are in wide use and mean one thing; a short name such as `sid` counts only with a
//! value that looks like an id. Lists are part of the presets: changing one changes the
//! canonicaliser's version.

/// Lower case, sorted.
const SESSION_NAMES: [&str; 11] = [
    "cfid",
    "cftoken",
    "jservsessionid",
    "jsessionid",
    "oscsid",
    "phpsessid",
    "sessionid",
    "sessid",
    "xtcsid",
    "zenid",
    "zencartsid",
];

const TRACKING_NAMES: [&str; 29] = [
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "_openstat",
    "dclid",
    "epik",
    "fbclid",
    "gad_source",
    "gbraid",
    "gclid",
    "gclsrc",
    "hsctatracking",
    "igsh",
    "igshid",
    "li_fat_id",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "msclkid",
    "oly_anon_id",
    "oly_enc_id",
    "s_kwcid",
    "srsltid",
    "ttclid",
    "twclid",
    "vero_id",
    "wbraid",
    "yclid",
];

/// Dropped only with a value that looks like an id: web sites also number talks and lessons with
/// them.
const SHORT_NAMES: [&str; 3] = ["s", "sid", SESSION_ID];
/// Dropped with any value in version 1.
const SESSION_ID: &str = "session_id";
/// Prefixes of names.
const ASP_SESSION: &str = "aspsessionid";
const UTM: &str = "utm_";

/// Minimum number of hexadecimal digits of an id.
const ID_DIGITS: usize = 32;

pub(super) fn is_session(name: &str, value: &str) -> bool {
    is_possible(name.as_bytes()) && is_listed_session(name, value)
}

/// [`is_session`] of version 1.
pub(super) fn is_session_1(name: &str, value: &str) -> bool {
    name.eq_ignore_ascii_case(SESSION_ID) || is_session(name, value)
}

fn is_listed_session(name: &str, value: &str) -> bool {
    let is = |other: &&str| name.eq_ignore_ascii_case(other);
    let is_id = || value.len() >= ID_DIGITS && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    SESSION_NAMES.iter().any(is) || begins(name, ASP_SESSION) || (SHORT_NAMES.iter().any(is) && is_id())
}

fn begins(name: &str, head: &str) -> bool {
    name.as_bytes().get(..head.len()).is_some_and(|bytes| bytes.eq_ignore_ascii_case(head.as_bytes()))
}

pub(super) fn is_tracking(name: &str) -> bool {
    is_possible(name.as_bytes()) && is_listed_tracking(name)
}

fn is_listed_tracking(name: &str) -> bool {
    begins(name, UTM) || TRACKING_NAMES.iter().any(|tracking| name.eq_ignore_ascii_case(tracking))
}

/// Returns whether a parameter of this name may carry a session or tracking.
#[inline]
pub(super) fn may_be_dropped(name: &[u8]) -> bool {
    // Values of short names are not examined here.
    let is_short = |name: &str| SHORT_NAMES.iter().any(|short| short.eq_ignore_ascii_case(name));
    let is_listed = |name| is_listed_session(name, "") || is_listed_tracking(name) || is_short(name);
    is_possible(name) && std::str::from_utf8(name).is_ok_and(is_listed)
}

/// Returns whether any listed name has this first byte and this length: rules out nearly all names
/// in a few instructions.
#[inline]
fn is_possible(name: &[u8]) -> bool {
    name.first().is_some_and(|first| LENGTHS[usize::from(*first)] >> name.len().min(LENGTH_MAX) & 1 == 1)
}

/// Longer names count as this length: some are prefixes.
const LENGTH_MAX: usize = 31;

/// For each first byte, a bit for each length of the names that begin with it.
const LENGTHS: [u32; 256] = {
    let mut lengths = [0; 256];
    note_lengths(&mut lengths, &SESSION_NAMES, 0);
    note_lengths(&mut lengths, &TRACKING_NAMES, 0);
    note_lengths(&mut lengths, &SHORT_NAMES, 0);
    note_lengths(&mut lengths, &[ASP_SESSION, UTM], u32::MAX);
    lengths
};

/// Sets the bits of these lengths; for prefixes `longer` adds all greater ones.
const fn note_lengths(lengths: &mut [u32; 256], names: &[&str], longer: u32) {
    let mut i = 0;
    while i < names.len() {
        let (first, len) = (names[i].as_bytes()[0], names[i].len());
        assert!(len < LENGTH_MAX);
        lengths[first.to_ascii_lowercase() as usize] |= (1 | longer) << len;
        lengths[first.to_ascii_uppercase() as usize] |= (1 | longer) << len;
        i += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_words() {
        assert!(is_session("PHPSESSID", "x") && is_session("ASPSESSIONIDQAAB", "x") && !is_session("aspsession", "x"));
        assert!(
            is_session("sid", "0123456789abcdef0123456789abcdef")
                && !is_session("sid", "41")
                && !is_session("s", "abc")
        );
        assert!(!is_session("session_id", "42") && is_session_1("session_id", "42"));
        assert!(is_session("SESSION_ID", "0123456789abcdef0123456789ABCDEF"));
        assert!(is_tracking("utm_source") && is_tracking("FBCLID") && !is_tracking("utm") && !is_tracking("id"));
    }
}
