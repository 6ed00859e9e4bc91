//! Detects keys of rules that no URL has, and suggests the right key: such a rule silently
//! releases what it was meant to withhold.

use crate::dump::surt::surt as index_key;

/// Stands for what may follow a prefix: it sorts after all other letters, since arguments are
/// sorted.
const MORE: u8 = b'~';

/// Checks a key. The error describes a key that no URL has; `Ok` holds a doubt, if there is one.
pub(super) fn check(key: &[u8], is_exact: bool) -> Result<Option<String>, String> {
    let is_web = |name: &[u8]| key.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
    if is_web(b"http://") || is_web(b"https://") {
        return Err(instead("it begins with a URL", &index_key(key), is_exact));
    }
    if key.iter().any(u8::is_ascii_uppercase) {
        return Err(instead("keys are in lower case", &key.to_ascii_lowercase(), is_exact));
    }
    if key.iter().any(|byte| !byte.is_ascii_graphic()) {
        return Err("write non-ASCII as in `com,example)/caf%c3%a9`, and host names in punycode".to_owned());
    }
    let end = key.iter().position(|byte| b")/?:".contains(byte)).unwrap_or(key.len());
    let (host, rest) = key.split_at(end);
    match rest.first() {
        Some(b'/' | b'?') => return Err(instead("`)` must follow the host", &index_key(key), is_exact)),
        // `dns:example.com`, `urn:...`, `::1)/`.
        Some(b':') if !is_port(rest) => return Ok(None),
        _ => {}
    }
    if let Some(meant) = host_meant(host) {
        let meant = [&meant, rest].concat();
        return Err(instead(
            "the labels of a host are reversed, with commas between them, without `www`",
            &meant,
            is_exact,
        ));
    }
    let Some(at) = key.iter().position(|byte| *byte == b')') else {
        return match is_exact {
            true => Err(instead("it matches no page", &[key, b")/"].concat(), is_exact)),
            false => Ok(None),
        };
    };
    let is_usual = matches!(&key[..at], begin if begin.ends_with(b":80") || begin.ends_with(b":443"));
    let usual = || "no key has port 80 of http or port 443 of https: leave it out".to_owned();
    Ok(behind_host(key, at, is_exact)?.or_else(|| is_usual.then(usual)))
}

fn is_port(rest: &[u8]) -> bool {
    let digits = rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
    matches!(rest.get(1 + digits), None | Some(b')')) && rest.len() > 1
}

/// The right spelling of a key's host, if it differs from this one.
fn host_meant(host: &[u8]) -> Option<Vec<u8>> {
    let bare = host.strip_prefix(b"(").unwrap_or(host);
    let is_domain = bare.starts_with(b"*.");
    let bare = bare.strip_prefix(b"*.").unwrap_or(bare);
    let mut labels: Vec<&[u8]> = bare.split(|byte| *byte == b',').filter(|label| !label.is_empty()).collect();
    if bare.contains(&b'.') || is_domain {
        labels = bare.split(|byte| *byte == b'.').filter(|label| !label.is_empty()).rev().collect();
    }
    let mut meant = labels.join(&b',');
    if is_domain {
        meant.push(b',');
    }
    // A prefix may end between two labels.
    let is_prefix = host.strip_suffix(b",") == Some(&meant);
    (meant != host && !is_prefix).then_some(meant)
}

/// Checks a key with a whole host, which ends at `at`.
fn behind_host(key: &[u8], at: usize, is_exact: bool) -> Result<Option<String>, String> {
    let (site, path) = key.split_at(at + 1);
    if path.is_empty() && !is_exact && !site.ends_with(b",)") && of_url(&[site, b"/"].concat()).starts_with(site) {
        return Ok(None);
    }
    if !path.starts_with(b"/") {
        return Err(instead("`)/` must follow the host", &of_url(&[site, b"/", path].concat()), is_exact));
    }
    let own = of_url(key);
    if is_exact {
        return if own == key { Ok(None) } else { Err(instead("it is not canonical", &own, is_exact)) };
    }
    // A prefix may end within an escape.
    let cut = (1..=2).find(|count| key.len().checked_sub(*count).and_then(|at| key.get(at)) == Some(&b'%'));
    let mut whole = key[..key.len() - cut.unwrap_or(0)].to_vec();
    whole.push(MORE);
    if of_url(&whole) != whole {
        return Err(instead("it is not canonical", &own, is_exact));
    }
    let is_above = key.strip_suffix(b"/") == Some(&own);
    Ok(is_above.then(|| {
        let own = String::from_utf8_lossy(&own).into_owned();
        format!("the rule is about what is below `{own}/`, and not about the page itself: its key is `{own}`")
    }))
}

/// The key of the URL from which a key with a whole host is made.
fn of_url(key: &[u8]) -> Vec<u8> {
    let (site, path) = key.split_at(key.iter().position(|byte| *byte == b')').unwrap_or(key.len()));
    let (host, port) = site.split_at(site.iter().position(|byte| *byte == b':').unwrap_or(site.len()));
    let labels: Vec<&[u8]> = host.split(|byte| *byte == b',').rev().collect();
    let scheme: &[u8] = if port == b":80" { b"https://" } else { b"http://" };
    index_key(&[scheme, &labels.join(&b'.'), port, path.get(1..).unwrap_or_default()].concat())
}

fn instead(why: &str, key: &[u8], is_exact: bool) -> String {
    let end = if is_exact { "###" } else { "" };
    format!("no URL has such a key: {why}; write `{}{end}`", String::from_utf8_lossy(key))
}
