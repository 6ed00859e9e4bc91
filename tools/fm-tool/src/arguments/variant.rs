//! `--method`, `--data-file` and `--variant`: choose a variant of a URL instead of the page
//! itself.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use filemap::{PageRead, Variant};
use fm_cli::{Failure, words};

use crate::arguments::urls::{Address, UrlArgs};

/// The flags that name a variant.
#[derive(clap::Args, Clone, Debug)]
pub struct VariantArgs {
    /// The answer to a request with this method, instead of the page (the answer to a plain GET)
    #[arg(long, value_name = "METHOD", conflicts_with = "variant")]
    method: Option<String>,
    /// The file with that request's body; - is standard input
    #[arg(long, value_name = "FILE", requires = "method")]
    data_file: Option<PathBuf>,
    /// The Content-Type of that body [default: application/x-www-form-urlencoded]
    #[arg(long, value_name = "TYPE", requires = "data_file")]
    data_type: Option<String>,
    /// The answer with this variant, as --all-variants lists it
    #[arg(long, value_name = "TEXT")]
    variant: Option<OsString>,
}

impl VariantArgs {
    /// Returns whether no variant is named.
    pub fn is_none(&self) -> bool {
        self.method.is_none() && self.variant.is_none()
    }

    /// Returns whether the request's body comes from standard input.
    pub fn reads_stdin(&self) -> bool {
        self.data_file.as_deref() == Some(Path::new("-"))
    }

    /// As [`VariantArgs::read`]; refuses standard input as both the URLs and the body.
    pub fn of(&self, urls: &UrlArgs) -> Result<Option<Variant>, Failure> {
        if self.reads_stdin() && urls.reads_stdin() {
            return Err(Failure::Usage("the URLs and the request's body cannot both be standard input".to_owned()));
        }
        self.read()
    }

    /// The named variant; `None` for the page itself. Reads the file.
    pub fn read(&self) -> Result<Option<Variant>, Failure> {
        if let Some(text) = &self.variant {
            return Ok(Some(Variant::new(text.clone().into_vec())?));
        }
        let Some(method) = &self.method else { return Ok(None) };
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') {
            return Err(Failure::Usage(format!("`{method}` is not a request method; write POST, PUT, HEAD ...")));
        }
        let mut body = Vec::new();
        if let Some(path) = &self.data_file {
            let fail = |error: io::Error| Failure::io("read", path, &error);
            if self.reads_stdin() {
                io::stdin().read_to_end(&mut body).map_err(fail)?;
            } else {
                File::open(path).and_then(|mut file| file.read_to_end(&mut body)).map_err(fail)?;
            }
        }
        let data_type = self.data_type.as_deref().unwrap_or("application/x-www-form-urlencoded");
        Ok(Variant::of_request(method, Some(data_type.as_bytes()), &body))
    }
}

/// Reports that a page or variant is not in the store, and where else it may be.
pub fn complain(store: &dyn PageRead, path: &Path, url: &Address, variant: Option<&Variant>, when: &str) {
    let path = path.display();
    if variant.is_some() {
        words::complain(format_args!("this answer of {url} is not in {path}{when}"));
    } else if when.is_empty() && store.may_have_variants(url.bytes()).unwrap_or(false) {
        words::complain(format_args!(
            "{url} is not in {path} as a page, but may be as the answer to other requests; `fm-tool history {path} \
             {url} --all-variants` lists them"
        ));
    } else {
        words::complain(format_args!("{url} is not in {path}{when}"));
    }
}
