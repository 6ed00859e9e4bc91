//! Files besides the store: tokens, access rules, certificate and key, the folder of seen sets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use filemap::acl::{AccessError, AccessRules};
use filemap_http::server::Tokens;
use fm_cli::Failure;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;

/// Tokens with their rights, a line each.
pub fn tokens(path: &Path) -> Result<Tokens, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
    Tokens::parse(&text).map_err(|words| Failure::Usage(format!("{}: {words}", path.display())))
}

/// Access rules, and the default if no rule matches; `None` if no file is given.
pub fn access(rules: &[PathBuf], config: Option<&Path>) -> Result<Option<AccessRules>, Failure> {
    let read = |path: &Path| fs::read(path).map_err(|error| Failure::io("read", path, &error));
    let refused = |error: AccessError| Failure::Usage(error.to_string());
    let mut found = AccessRules::new();
    for path in rules {
        found.add(&path.display().to_string(), &read(path)?).map_err(refused)?;
    }
    if let Some(path) = config {
        found.configure(&path.display().to_string(), &read(path)?).map_err(refused)?;
    }
    Ok((!rules.is_empty() || config.is_some()).then_some(found))
}

/// The latest status of a crawl into the store (fm-crawl's `status.json`); `None` if there is no
/// crawl, or the file is being written.
pub fn crawl(store: &Path) -> Option<Value> {
    let mut folder = store.as_os_str().to_owned();
    folder.push(".crawl");
    serde_json::from_slice(&fs::read(Path::new(&folder).join("status.json")).ok()?).ok()
}

/// The seen sets of a folder, by file name; a set's rules are in the file of that name with
/// `.canon`. If `makes`, the folder is created.
pub fn seen_sets(folder: &Path, makes: bool) -> Result<Vec<(String, PathBuf)>, Failure> {
    if makes {
        fs::create_dir_all(folder).map_err(|error| Failure::io("make", folder, &error))?;
    }
    let failed = |error: io::Error| Failure::io("list", folder, &error);
    let mut sets = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(name) = name.strip_suffix(".canon") {
            sets.push((name.to_owned(), folder.join(name)));
        }
    }
    sets.sort();
    Ok(sets)
}

/// TLS with a certificate (and those above it) and its key, both in PEM.
pub fn tls(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Failure> {
    let bad = |path: &Path, words: String| Failure::Usage(format!("{}: {words}", path.display()));
    let chain = fs::read(certificate).map_err(|error| Failure::io("read", certificate, &error))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
    let chain = chain.map_err(|error| bad(certificate, format!("no certificates in PEM: {error}")))?;
    let secret = fs::read(key).map_err(|error| Failure::io("read", key, &error))?;
    let secret = PrivateKeyDer::from_pem_slice(&secret).map_err(|error| bad(key, format!("no key in PEM: {error}")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
    config.map(Arc::new).map_err(|error| bad(certificate, format!("cannot be used for TLS: {error}")))
}
