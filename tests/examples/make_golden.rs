//! Makes a golden store for a new version of the format: `cargo run -p filemap-tests --example
//! make_golden -- FOLDER`. The folder must not exist: committed golden stores are never replaced.

use std::error::Error;
use std::path::PathBuf;

use filemap_tests::hostile::golden;

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args_os().nth(1).ok_or("which folder? It must not exist yet")?.into();
    std::fs::create_dir(&folder)?;
    golden::make()?.write(&folder)?;
    Ok(())
}
