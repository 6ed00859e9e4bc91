//! `man`: prints manual pages of the program and of each verb, from the text of `--help`.

use std::fs;
use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;
use fm_cli::{Failure, Flags, Outcome, Output, sink, words};

use crate::flags::Shared;

/// Print the manual pages, or write one file for each verb
#[derive(clap::Args)]
#[command(after_help = "Without a folder all pages are printed one after the other: fm-tool man | man -l -\n\n\
    Example:\n  fm-tool man ~/.local/share/man/man1")]
pub struct Args {
    /// Write fm-tool.1, fm-tool-get.1 and so on into this folder, made if missing
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, program: Command, shared: &Shared) -> Result<Outcome, Failure> {
    let pages = pages(program)?;
    let Some(folder) = &args.folder else {
        let mut out = Output::stdout(Flags::default());
        pages.iter().try_for_each(|(_, page)| out.bytes(page))?;
        return out.end(Outcome::Done);
    };
    sink::refuse_store(folder)?;
    sink::refuse_link(folder)?;
    fs::create_dir_all(folder).map_err(|error| Failure::io("create", folder, &error))?;
    for (name, page) in &pages {
        let mut out = Output::file(&folder.join(name), Flags::default())?;
        out.bytes(page)?;
        out.finish()?;
    }
    if !shared.flags.quiet {
        words::say(format_args!("{} written to {}", words::count(pages.len() as u64, "page"), folder.display()));
    }
    Ok(Outcome::Done)
}

/// A file's name and contents.
type NamedPage = (String, Vec<u8>);

/// All pages: the program's first, a verb's subcommands after the verb's.
fn pages(program: Command) -> Result<Vec<NamedPage>, Failure> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut commands = vec![program];
    let mut at = 0;
    while let Some(command) = commands.get(at) {
        let verbs: Vec<Command> = command.get_subcommands().cloned().collect();
        at += 1;
        commands.splice(at..at, verbs);
    }
    let mut pages = Vec::new();
    for command in commands {
        let man = Man::new(command);
        let mut page = Vec::new();
        man.render(&mut page).map_err(|error| Failure::Io(format!("a manual page cannot be made: {error}")))?;
        pages.push((man.get_filename(), page));
    }
    Ok(pages)
}
