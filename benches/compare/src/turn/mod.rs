//! One engine's turn of one round: its open store, the pages, the results and the device's
//! counters. Workloads act on it.

pub mod plan;

use std::fs;
use std::path::{Path, PathBuf};

use filemap_benches::device::{self, Device, Traffic};
use filemap_benches::drive::Outcome;
use filemap_benches::source::Source;

use crate::engine::{Engine, Kind, Purpose, Settings};
use crate::measure::lines::Lines;
use crate::measure::usage::Memory;
use crate::pages::Pages;
use crate::turn::plan::Plan;

/// State shared by the workloads of a turn.
pub struct Turn<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The engine.
    pub kind: &'static Kind,
    /// Its settings.
    pub settings: Settings,
    /// The pages and their versions.
    pub pages: Pages,
    /// The output of results.
    pub lines: Lines,
    /// The device under the store, if it has counters.
    pub device: Option<Device>,
    /// The engine's directory.
    pub dir: PathBuf,
    /// This process's memory before there was any store.
    pub baseline: Memory,
    store: Option<Box<dyn Engine>>,
}

impl Turn<'_> {
    /// A turn with its directory empty and no store open yet.
    pub fn new<'a>(
        plan: &'a Plan,
        kind: &'static Kind,
        (source, count): (Source, u64),
        lines: Lines,
    ) -> Outcome<Turn<'a>> {
        let dir = plan.store_dir(kind);
        if dir.exists() {
            // A turn that broke off left it.
            fs::remove_dir_all(&dir)?;
        }
        Ok(Turn {
            plan,
            kind,
            settings: plan.settings(),
            pages: Pages::new(source, count, plan.new_pages(count)),
            lines,
            device: Device::of(&plan.dir).and_then(|device| device.traffic().map(|_| device)).ok(),
            dir,
            baseline: Memory::now()?,
            store: None,
        })
    }

    /// The open store.
    pub fn engine(&self) -> Outcome<&dyn Engine> {
        Ok(self.store.as_deref().ok_or("the store is not open")?)
    }

    /// The open store, exclusively.
    pub fn engine_mut(&mut self) -> Outcome<&mut Box<dyn Engine>> {
        Ok(self.store.as_mut().ok_or("the store is not open")?)
    }

    /// Opens the store, or makes it.
    pub fn open(&mut self, purpose: Purpose) -> Outcome<()> {
        self.store = Some((self.kind.open)(&self.dir, &self.settings, purpose)?);
        Ok(())
    }

    /// Closes it.
    pub fn close(&mut self) -> Outcome<()> {
        self.store.take().map_or(Ok(()), |store| store.close())
    }

    /// Closes and opens it. An engine that cannot reopen stays open.
    pub fn reopen(&mut self, purpose: Purpose) -> Outcome<()> {
        if !self.kind.can.reopen {
            return Ok(());
        }
        self.close()?;
        self.open(purpose)
    }

    /// Reopens the store with nothing in the page cache except the files that `warm` accepts.
    pub fn reopen_cold(&mut self, warm: Option<fn(&str) -> bool>) -> Outcome<()> {
        if self.kind.can.reopen {
            self.close()?;
        }
        self.drop_caches()?;
        if let Some(warm) = warm {
            warm_files(&self.dir, &self.dir, warm)?;
        }
        if self.kind.can.reopen {
            self.open(Purpose::Use)?;
        }
        self.settle()
    }

    /// Drops the kernel's caches, unless the plan keeps them.
    pub fn drop_caches(&self) -> Outcome<()> {
        if self.plan.keep_page_cache { Ok(()) } else { Ok(device::drop_caches()?) }
    }

    /// Waits until the file system has written everything out.
    pub fn settle(&self) -> Outcome<()> {
        self.device.as_ref().map_or(Ok(()), |device| Ok(device.settle()?))
    }

    /// The device's counters now, with everything written out.
    pub fn traffic(&self) -> Outcome<Option<Traffic>> {
        self.settle()?;
        Ok(self.device.as_ref().map(Device::traffic).transpose()?)
    }

    /// Bytes written since a reading.
    pub fn written_since(&self, before: Option<Traffic>) -> Outcome<Option<u64>> {
        let now = self.traffic()?;
        Ok(before.zip(now).map(|(before, now)| now.since(before).written_bytes))
    }
}

fn warm_files(root: &Path, dir: &Path, accepts: fn(&str) -> bool) -> Outcome<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            warm_files(root, &path, accepts)?;
        } else if accepts(&path.strip_prefix(root)?.to_string_lossy()) {
            device::read_into_cache(&path)?;
        }
    }
    Ok(())
}
