//! The flags that every verb of `fm-tool` takes.

/// Flags that all command lines share, and those of this tool.
#[derive(clap::Args)]
pub struct Shared {
    #[command(flatten)]
    pub flags: fm_cli::Flags,
    /// Open a store for writing although files are missing; the loss is recorded in the store and
    /// accepted from then on
    #[arg(long, global = true)]
    pub accept_loss: bool,
}
