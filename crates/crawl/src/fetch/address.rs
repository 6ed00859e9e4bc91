//! Name resolution, and the filter of allowed addresses.
//!
//! The check applies to the resolved address, and the connection goes to that same address. So a
//! name that resolves differently the second time cannot evade it, nor can a redirect, which is a
//! separate fetch.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::failure::{Failure, Reason};

/// Returns whether an address is public: not loopback, private, link-local, shared, reserved,
/// documentation or multicast, nor an IPv6 address that embeds such an IPv4 address (IANA's
/// special-purpose registries).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || matches!((a, b, c), (0, _, _) | (192, 0, 0) | (192, 88, 99))
        || (a == 100 && b & 0xc0 == 64)
        || (a == 198 && b & 0xfe == 18)
        || a >= 224;
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(v4) = address.to_ipv4_mapped() {
        return is_public_v4(v4);
    }
    let s = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match s {
        // NAT64 and 6to4: as public as the embedded address.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(v4(high, low)),
        [0x2002, high, low, ..] => is_public_v4(v4(high, low)),
        // Teredo, benchmarking, ORCHID and the rest of 2001::/23; documentation.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // Global unicast is 2000::/3; all else is loopback, local, multicast or reserved.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Checks a host that a proxy resolves: an address must be public, and a name must not be that of
/// the local host.
///
/// # Errors
/// `PrivateAddress`.
pub fn check_literal(host: &str) -> Result<(), Failure> {
    let bare = host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
    let is_local = match bare.parse::<IpAddr>() {
        Ok(address) => !is_public(address),
        Err(_) => bare == "localhost" || bare.ends_with(".localhost"),
    };
    if is_local {
        let words = format!("{host} is not public; see --allow-private");
        return Err(Failure::new(Reason::PrivateAddress, words));
    }
    Ok(())
}

/// A name with a fixed address, like curl's `--resolve`, optionally with another port.
///
/// ```
/// use crawl::fetch::address::Override;
/// assert!(Override::parse("example.com:*:127.0.0.1:8080").is_ok());
/// assert!(Override::parse("example.com").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    host: Option<String>,
    port: Option<u16>,
    to: IpAddr,
    to_port: Option<u16>,
}

impl Override {
    /// Reads `HOST:PORT:ADDRESS` or `HOST:PORT:ADDRESS:PORT`; host and port may be `*`, an IPv6
    /// address has brackets.
    ///
    /// # Errors
    /// An error message for the user.
    pub fn parse(text: &str) -> Result<Override, String> {
        let wrong = || format!("`{text}` is not HOST:PORT:ADDRESS or HOST:PORT:ADDRESS:PORT");
        let (host, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (port, to) = rest.split_once(':').ok_or_else(wrong)?;
        let port = if port == "*" { None } else { Some(port.parse().map_err(|_| wrong())?) };
        let host = (host != "*").then(|| host.to_ascii_lowercase());
        let (to, to_port) = match to.parse::<SocketAddr>() {
            Ok(socket) => (socket.ip(), Some(socket.port())),
            Err(_) => (to.trim_matches(['[', ']']).parse().map_err(|_| wrong())?, None),
        };
        Ok(Override { host, port, to, to_port })
    }

    fn leads(&self, host: &str, port: u16) -> Option<SocketAddr> {
        let is_it = self.host.as_deref().is_none_or(|own| own == host) && self.port.is_none_or(|own| own == port);
        is_it.then(|| SocketAddr::new(self.to, self.to_port.unwrap_or(port)))
    }
}

/// Resolves names to allowed addresses.
///
/// ```
/// use crawl::fetch::address::{Override, Resolver};
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let overrides = vec![Override::parse("example.com:80:127.0.0.1:8080")?];
/// let mut resolver = Resolver { overrides, allow_private: false };
/// assert!(runtime.block_on(resolver.addresses("example.com", 80)).is_err());
/// resolver.allow_private = true;
/// let found = runtime.block_on(resolver.addresses("example.com", 80))?;
/// assert_eq!(found[0].to_string(), "127.0.0.1:8080");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Resolver {
    /// Names with fixed addresses; the first match counts.
    pub overrides: Vec<Override>,
    /// True if non-public addresses are allowed.
    pub allow_private: bool,
}

impl Resolver {
    /// The allowed addresses of a host, in the system's order.
    ///
    /// # Errors
    /// `Dns` if there is no address; `PrivateAddress` if none is allowed.
    pub async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
        let bare = host.trim_matches(['[', ']']);
        let overridden = self.overrides.iter().find_map(|entry| entry.leads(bare, port));
        let all: Vec<SocketAddr> = match (overridden, bare.parse::<IpAddr>()) {
            (Some(address), _) => vec![address],
            (None, Ok(address)) => vec![SocketAddr::new(address, port)],
            (None, Err(_)) => {
                let found = tokio::net::lookup_host((bare, port)).await;
                found.map_err(|error| Failure::new(Reason::Dns, format!("{bare}: {error}")))?.collect()
            }
        };
        let first = all.first().copied().ok_or_else(|| Failure::new(Reason::Dns, format!("{bare} has no address")))?;
        let allowed: Vec<SocketAddr> =
            all.into_iter().filter(|address| self.allow_private || is_public(address.ip())).collect();
        if allowed.is_empty() {
            let words = format!("{bare} is at {}, which is not a public address; see --allow-private", first.ip());
            return Err(Failure::new(Reason::PrivateAddress, words));
        }
        Ok(allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_proxy_resolves_literal_addresses_are_checked() {
        for host in ["127.0.0.1", "[::1]", "10.0.0.9", "localhost", "LocalHost.", "a.localhost", "[::ffff:127.0.0.1]"] {
            assert_eq!(check_literal(host).unwrap_err().reason, Reason::PrivateAddress, "{host}");
        }
        for host in ["1.1.1.1", "[2606:4700::1111]", "a.example", "notlocalhost", "127.0.0.1.example"] {
            assert!(check_literal(host).is_ok(), "{host}");
        }
    }

    #[test]
    fn only_addresses_of_the_public_network_are_public() {
        let public =
            ["1.1.1.1", "93.184.216.34", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1", "198.20.0.1"];
        let public_v6 = ["2606:4700::1111", "2a00:1450::1", "64:ff9b::101:101", "::ffff:1.1.1.1", "2002:101:101::1"];
        for text in public.iter().chain(&public_v6) {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        let local = [
            "127.0.0.1",
            "127.255.0.9",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "100.64.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
        ];
        let local_v6 = [
            "::",
            "::1",
            "::7f00:1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "3fff::1",
            "100::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:a00:1::1",
            "2002:7f00:1::",
        ];
        for text in local.iter().chain(&local_v6) {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn overrides_are_read_and_the_first_that_fits_counts() {
        let parse = |text: &str| Override::parse(text).unwrap();
        assert_eq!(parse("A.test:80:127.0.0.1:8080").leads("a.test", 80), Some("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(parse("a.test:80:127.0.0.1").leads("a.test", 81), None);
        assert_eq!(parse("*:443:[::1]:99").leads("x", 443), Some("[::1]:99".parse().unwrap()));
        assert_eq!(parse("*:*:[::1]").leads("x", 5), Some("[::1]:5".parse().unwrap()));
        for bad in ["", "a", "a:80", "a:b:127.0.0.1", "a:80:b"] {
            assert!(Override::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_that_leads_to_a_private_address_is_refused_unless_allowed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut resolver =
            Resolver { overrides: vec![Override::parse("evil.test:80:10.0.0.1").unwrap()], allow_private: false };
        let asked = |resolver: &Resolver, host: &str| runtime.block_on(resolver.addresses(host, 80));
        assert_eq!(asked(&resolver, "evil.test").unwrap_err().reason, Reason::PrivateAddress);
        assert_eq!(asked(&resolver, "[::1]").unwrap_err().reason, Reason::PrivateAddress);
        assert_eq!(asked(&resolver, "127.0.0.1").unwrap_err().reason, Reason::PrivateAddress);
        resolver.allow_private = true;
        assert_eq!(asked(&resolver, "evil.test").unwrap(), ["10.0.0.1:80".parse().unwrap()]);
    }
}
