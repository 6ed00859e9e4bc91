//! The flags that every verb of every command line takes.

/// Output options of a verb.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Flags {
    /// Print JSON Lines; bytes that are not UTF-8 as base64 in a field NAME_base64
    #[arg(long, global = true)]
    pub json: bool,
    /// Print results and errors only
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

impl Flags {
    /// Returns whether text for people is printed beside results and errors.
    pub fn says(self) -> bool {
        !self.quiet && !self.json
    }
}
