//! `--host`, `--domain` and `--prefix`: the pages that a verb applies to. With several flags, a
//! page must match all.

use filemap::PageRead;
use filemap::access::Scope;

use fm_cli::Failure;

use crate::arguments::urls::Address;

/// The flags that choose pages.
#[derive(clap::Args, Clone, Debug)]
pub struct Selection {
    /// Only those of this host
    #[arg(long, value_parser = host)]
    host: Option<String>,
    /// Only those of this host and of its subdomains
    #[arg(long, value_parser = host, value_name = "HOST")]
    domain: Option<String>,
    /// Only those whose canonical URL begins with this
    #[arg(long)]
    prefix: Option<Address>,
}

impl Selection {
    /// Returns whether every page is selected.
    pub fn is_all(&self) -> bool {
        self.host.is_none() && self.domain.is_none() && self.prefix.is_none()
    }

    /// The selected pages.
    pub fn scope(&self) -> Scope {
        let mut scope = Scope::new().prefix(self.prefix.as_ref().map_or(&[][..], Address::bytes));
        (scope.host, scope.domain) = (self.host.clone(), self.domain.clone());
        scope
    }

    /// Approximate number of keys that a listing visits, if known without counting.
    pub fn expected(&self, store: &dyn PageRead) -> Result<Option<u64>, Failure> {
        if self.is_all() { Ok(store.contents()?.keys) } else { Ok(None) }
    }

    /// The selection in words, after a noun: ` of example.com`.
    pub fn words(&self) -> String {
        let host = self.host.as_ref().map_or(String::new(), |host| format!(" of {host}"));
        let domain = self.domain.as_ref().map_or(String::new(), |host| format!(" of {host} and its subdomains"));
        let prefix = self.prefix.as_ref().map_or(String::new(), |prefix| format!(" that begin with {prefix}"));
        format!("{host}{domain}{prefix}")
    }
}

/// Reads a host's name. Refuses a URL, or a host with a port: it would silently match nothing.
pub fn host(text: &str) -> Result<String, String> {
    if !urlindex::canonical::is_bare_host(text) {
        return Err(format!(
            "`{text}` is not a host; write its name alone, for example example.com, for any scheme and port"
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_nothing_else() {
        let hosts =
            ["example.com", "EXAMPLE.com.", "b\u{fc}cher.example", "127.0.0.1", "[::1]", "::1", "a_b", "localhost"];
        assert!(hosts.iter().all(|text| host(text).as_deref() == Ok(text)));
        let others =
            ["", "http://example.com/", "example.com/x", "example.com:80", "[::1]:80", "u@example.com", "a b", "a\\b"];
        assert!(others.iter().all(|text| host(text).is_err_and(|what| what.contains("write its name alone"))));
    }

    fn chosen(host: Option<&str>, prefix: Option<&str>) -> Vec<&'static str> {
        let prefix = prefix.map(|prefix| Address::from(std::ffi::OsString::from(prefix)));
        let selection = Selection { host: host.map(str::to_owned), domain: None, prefix };
        let filter = selection.scope().filter();
        let urls = ["http://a.example/", "http://a.example/x", "https://a.example/x", "http://b.example/x", "data:,x"];
        urls.into_iter().filter(|url| filter(url.as_bytes())).collect()
    }

    #[test]
    fn host_and_prefix_choose_each_alone_and_together() {
        assert_eq!(chosen(None, None).len(), 5);
        assert_eq!(chosen(Some("B.Example"), None), ["http://b.example/x"]);
        assert_eq!(chosen(None, Some("http://a.example/")), ["http://a.example/", "http://a.example/x"]);
        assert_eq!(chosen(Some("a.example"), Some("https:")), ["https://a.example/x"]);
        assert!(chosen(Some("absent.example"), None).is_empty());
    }

    #[test]
    fn a_domain_is_its_host_and_all_below_it() {
        let selection = Selection { host: None, domain: Some("B\u{fc}cher.Example".to_owned()), prefix: None };
        let filter = selection.scope().filter();
        let chosen = |host: &str| filter(format!("http://{host}/").as_bytes());
        assert!(chosen("xn--bcher-kva.example") && chosen("www.xn--bcher-kva.example:81") && !selection.is_all());
        assert!(!chosen("wwwxn--bcher-kva.example") && !chosen("example") && !filter(b"data:,x"));
        assert_eq!(selection.words(), " of B\u{fc}cher.Example and its subdomains");
    }
}
