//! The robots directives of a page: `meta` elements and `X-Robots-Tag` fields.
//!
//! Directives for all agents and for our product token apply; those for another agent do not.

/// Directives with a value after a colon: these are not agents.
const WITH_VALUE: [&str; 4] = ["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"];

/// Returns whether a list of directives (`noindex, nofollow`, `none`) forbids following links.
pub fn forbids_following(directives: &[u8]) -> bool {
    words(directives).any(|word| word.eq_ignore_ascii_case(b"nofollow") || word.eq_ignore_ascii_case(b"none"))
}

/// Returns whether a `meta` element of this name applies to us.
pub fn speaks_to(name: &[u8], agent: &str) -> bool {
    let name = name.trim_ascii();
    name.eq_ignore_ascii_case(b"robots") || !agent.is_empty() && name.eq_ignore_ascii_case(agent.as_bytes())
}

/// Returns whether a value of `X-Robots-Tag` forbids us to follow links. An agent (`googlebot:
/// nofollow`) applies to all directives up to the next agent.
pub fn tag_forbids_following(value: &[u8], agent: &str) -> bool {
    let mut is_ours = true;
    value.split(|byte| *byte == b',').any(|part| {
        let mut directive = part;
        if let Some(colon) = part.iter().position(|byte| *byte == b':') {
            let name = part[..colon].trim_ascii();
            if is_agent(name) {
                is_ours = name == b"*" || speaks_to(name, agent);
                directive = &part[colon + 1..];
            }
        }
        // A directive's value is ignored: `unavailable_after: none`.
        let name = directive.split(|byte| *byte == b':').next().unwrap_or_default();
        is_ours && forbids_following(name)
    })
}

/// Returns whether the text before a colon is an agent: neither a directive nor a piece of a date.
fn is_agent(name: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./*".contains(byte);
    let is_directive = WITH_VALUE.iter().any(|directive| name.eq_ignore_ascii_case(directive.as_bytes()));
    !is_directive && name.iter().all(is_token) && (name == b"*" || name.iter().any(u8::is_ascii_alphabetic))
}

/// The words of a list, separated by spaces or commas.
pub fn words(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| byte.is_ascii_whitespace() || *byte == b',').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_bind_those_to_whom_they_speak() {
        let rows = [
            ("nofollow", true),
            ("noindex, NoFollow", true),
            ("none", true),
            ("noindex", false),
            ("googlebot: nofollow", false),
            ("googlebot: noindex, nofollow", false),
            ("Our-Bot: nofollow", true),
            ("our-bot : noindex , nofollow", true),
            ("googlebot: noindex, our-bot: nofollow", true),
            ("our-bot: noindex, googlebot: nofollow", false),
            ("nofollow, googlebot: noindex", true),
            ("*: nofollow", true),
            ("robots: nofollow", true),
            ("unavailable_after: 25 Jun 2010 15:00:00 PST", false),
            ("unavailable_after: Wed, 25 Jun 2010 15:00:00 GMT, nofollow", true),
            ("googlebot: unavailable_after: Wed, 25 Jun 2010 15:00:00 GMT, nofollow", false),
            ("max-snippet: -1, nofollow", true),
            ("max-image-preview: none", false),
            ("", false),
            (":", false),
            (": nofollow", false),
        ];
        for (value, forbids) in rows {
            assert_eq!(tag_forbids_following(value.as_bytes(), "our-bot"), forbids, "{value}");
        }
    }

    #[test]
    fn a_meta_speaks_to_everybody_or_to_us() {
        for (name, is_ours) in
            [("robots", true), (" ROBOTS ", true), ("Our-Bot", true), ("googlebot", false), ("", false)]
        {
            assert_eq!(speaks_to(name.as_bytes(), "our-bot"), is_ours, "{name}");
        }
        assert!(!speaks_to(b"", ""));
    }
}
