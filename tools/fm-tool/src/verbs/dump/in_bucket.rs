//! `dump` of a bucket: its versions key by key, read in parallel, into the same files.

use std::io::{self, IsTerminal};
use std::time::Instant;

use filemap::access::Scope;
use filemap::dump::{self, DumpEvent};
use fm_cli::{Failure, Outcome, Progress, interrupt, words};

use super::{Args, Format, Selected, To, conclude, failure, options, tell, to};
use crate::flags::Shared;
use crate::stores::bucket::{self, For};

/// Runs the verb.
pub fn run(location: &str, args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let why = "`repair` tells what is lost";
    bucket::refuse_flags(location, &[("--accept-loss", shared.accept_loss, why)])?;
    let is_table = args.format.contains(&Format::Parquet);
    let why = "a table is made of the files of one: `fm-tool copy LOCATION FOLDER` brings the pages to a folder";
    bucket::refuse_flags(location, &[("--format parquet", is_table, why)])?;
    let store = bucket::opened(location, For::Reading, bucket::options()?)?;
    interrupt::listen();
    let mut to = to(args)?;
    let is_stdout = matches!(to, To::Stream(_));
    let options = options(args, &to);
    let started = Instant::now();
    let bar = Progress::records(&shared.flags, None, "versions");
    let bar = bar.unless_printing(is_stdout && io::stdout().is_terminal());
    let mut versions = store.stored_of(&args.selected.scope());
    let report = dump::dump_versions(&mut versions, &options, to.target(), &mut |event| {
        match event {
            DumpEvent::Progress(_) => bar.add(),
            DumpEvent::Damage(error) | DumpEvent::NoBody(error) => bar.aside(|| words::complain(error)),
            _ => {}
        }
        interrupt::go_on()
    });
    drop(bar);
    let mut report = report.map_err(failure)?;
    to.finish(&mut report)?;
    if !is_stdout {
        tell(&report, started.elapsed().as_secs_f64(), shared)?;
    }
    conclude(&report)
}

impl Selected {
    /// The pages to read: more than the selection, if that has more than a host and a prefix.
    fn scope(&self) -> Scope {
        let of_host = |host: &String| match self.subdomains {
            true => Scope::new().domain(host),
            false => Scope::new().host(host),
        };
        let scope = self.host.as_ref().map_or_else(Scope::new, of_host);
        match &self.prefix {
            Some(prefix) => scope.prefix(prefix.bytes()),
            None => scope,
        }
    }
}
