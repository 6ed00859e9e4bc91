//! Values of the arguments of `run`, parsed from text. The error is a sentence.

/// Greatest distance of near-duplicates in bits, or off.
#[derive(Clone, Copy, Debug)]
pub(super) struct NearBits(pub(super) Option<u8>);

pub(super) fn near_bits(text: &str) -> Result<NearBits, String> {
    let bits = text.parse::<u8>().ok().filter(|bits| *bits <= 3).map(Some);
    let bits = bits.or_else(|| (text == "off").then_some(None));
    bits.map(NearBits).ok_or_else(|| format!("`{text}` is not a number of bits, 0 to 3, or off"))
}

/// Requests a second: 0 or more.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=1e6).contains(rate));
    rate.ok_or_else(|| {
        format!("`{text}` is not a number of requests a second; write for example 0.5, 1, or 0 for no limit")
    })
}

/// A fraction, from a percentage.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=100.0).contains(number)).map(|number| number / 100.0);
    number.ok_or_else(|| format!("`{text}` is not a number of percent, such as 1%"))
}

/// The value of a header field: one line.
pub(super) fn one_line(text: &str) -> Result<String, String> {
    match text.chars().any(char::is_control) {
        true => Err("it becomes one line of a request: no control characters".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// The name that robots.txt is matched by; `None` for that of the user agent.
#[derive(Clone, Debug)]
pub(super) struct RobotsToken(pub(super) Option<String>);

pub(super) fn robots_token(text: &str) -> Result<RobotsToken, String> {
    match text {
        "agent" => Ok(RobotsToken(None)),
        _ if !text.is_empty() && crawl::robots::token(text) == text => Ok(RobotsToken(Some(text.to_owned()))),
        _ => Err("it has letters, digits, - and _".to_owned()),
    }
}

/// A contact: an address or a page.
pub(super) fn contact(text: &str) -> Result<String, String> {
    match has_contact(text) {
        true => one_line(text),
        false => Err("give an address or a page, such as mailto:you@example.com".to_owned()),
    }
}

pub(super) fn has_contact(text: &str) -> bool {
    ["@", "http://", "https://"].iter().any(|mark| text.contains(mark))
}
