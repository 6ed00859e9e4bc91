//! The calls of a store behind a server, blocking or awaited, under one trait.

use std::time::Duration;

use filemap::access::{Cursor, PutRule, RemovedVersions, Scope};
use filemap::import::ImportOptions;
use filemap::{Lookup, Page, PageHead, PageRead, PageWrite, Put, Result, Variant, Version};
use filemap_http::{ArchiveForm, AsyncClient, Client, Line};

/// The calls of a store, blocking or not.
pub trait Calls {
    async fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>>;
    async fn get_version(&self, lookup: &Lookup<'_>, version: Version) -> Result<Option<Page>>;
    async fn get_many(&self, urls: &[Vec<u8>]) -> Result<Vec<Option<Page>>>;
    async fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>>;
    async fn contains(&self, lookup: &Lookup<'_>) -> Result<bool>;
    async fn history(&self, lookup: &Lookup<'_>) -> Result<Vec<PageHead>>;
    async fn urls(&self, scope: &Scope) -> Result<Vec<Vec<u8>>>;
    async fn count(&self, scope: &Scope) -> Result<u64>;
    async fn put(&self, page: Page, rule: PutRule) -> Result<Option<Put>>;
    async fn put_many(&self, pages: Vec<Page>, rule: PutRule) -> Result<Vec<Option<Put>>>;
    async fn remove(&self, url: &[u8], variant: Option<&Variant>) -> Result<bool>;
    async fn remove_at(&self, url: &[u8], time_ms: i64) -> Result<Option<RemovedVersions>>;
    async fn sync(&self) -> Result<()>;
    async fn changes(&self, since: Option<&str>) -> Result<Vec<Line>>;
    async fn body_of(&self, page: &Page, version: Version) -> Result<Option<Vec<u8>>>;
    async fn import(&self, warc: Vec<u8>) -> Result<u64>;
}

impl Calls for Client {
    async fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>> {
        PageRead::get(self, lookup)
    }
    async fn get_version(&self, lookup: &Lookup<'_>, version: Version) -> Result<Option<Page>> {
        PageRead::get_version(self, lookup, version)
    }
    async fn get_many(&self, urls: &[Vec<u8>]) -> Result<Vec<Option<Page>>> {
        PageRead::get_many(self, &urls.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
    async fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>> {
        PageRead::head(self, lookup)
    }
    async fn contains(&self, lookup: &Lookup<'_>) -> Result<bool> {
        PageRead::contains(self, lookup)
    }
    async fn history(&self, lookup: &Lookup<'_>) -> Result<Vec<PageHead>> {
        PageRead::history(self, lookup)?.collect()
    }
    async fn urls(&self, scope: &Scope) -> Result<Vec<Vec<u8>>> {
        self.list(scope, None)?.map(|listed| listed.map(|listed| listed.url)).collect()
    }
    async fn count(&self, scope: &Scope) -> Result<u64> {
        PageRead::count(self, scope)
    }
    async fn put(&self, page: Page, rule: PutRule) -> Result<Option<Put>> {
        PageWrite::put(self, &page, rule)
    }
    async fn put_many(&self, pages: Vec<Page>, rule: PutRule) -> Result<Vec<Option<Put>>> {
        PageWrite::put_many(self, &pages, rule)
    }
    async fn remove(&self, url: &[u8], variant: Option<&Variant>) -> Result<bool> {
        PageWrite::remove(self, url, variant)
    }
    async fn remove_at(&self, url: &[u8], time_ms: i64) -> Result<Option<RemovedVersions>> {
        PageWrite::remove_at(self, url, None, time_ms)
    }
    async fn sync(&self) -> Result<()> {
        PageWrite::sync(self)
    }
    async fn changes(&self, since: Option<&str>) -> Result<Vec<Line>> {
        Client::changes(self, since, Duration::ZERO)?.collect()
    }
    async fn body_of(&self, page: &Page, version: Version) -> Result<Option<Vec<u8>>> {
        let Some(mut body) = Client::body_of(self, page, version)? else { return Ok(None) };
        let mut bytes = Vec::new();
        body.read_to_end(&mut bytes).expect("readable");
        Ok(Some(bytes))
    }
    async fn import(&self, warc: Vec<u8>) -> Result<u64> {
        let sent = Client::import(self, "a.warc", ArchiveForm::Warc, &mut warc.as_slice(), &ImportOptions::new())?;
        Ok(sent.report.stored)
    }
}

impl Calls for AsyncClient {
    async fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>> {
        (**self).get(lookup).await
    }
    async fn get_version(&self, lookup: &Lookup<'_>, version: Version) -> Result<Option<Page>> {
        (**self).get_version(lookup, version).await
    }
    async fn get_many(&self, urls: &[Vec<u8>]) -> Result<Vec<Option<Page>>> {
        (**self).get_many(urls.iter().cloned()).await
    }
    async fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>> {
        (**self).head(lookup).await
    }
    async fn contains(&self, lookup: &Lookup<'_>) -> Result<bool> {
        (**self).contains(lookup).await
    }
    async fn history(&self, lookup: &Lookup<'_>) -> Result<Vec<PageHead>> {
        (**self).history(lookup, 1_000).await?.into_iter().collect()
    }
    async fn urls(&self, scope: &Scope) -> Result<Vec<Vec<u8>>> {
        let (mut urls, mut after): (Vec<_>, Option<Cursor>) = (Vec::new(), None);
        loop {
            // Parts that do not end with the list.
            let (part, next) = self.list(scope, after.as_ref(), 7).await?;
            for listed in part {
                urls.push(listed?.url);
            }
            let Some(next) = next else { return Ok(urls) };
            after = Some(next);
        }
    }
    async fn count(&self, scope: &Scope) -> Result<u64> {
        (**self).count(scope).await
    }
    async fn put(&self, page: Page, rule: PutRule) -> Result<Option<Put>> {
        (**self).put(page, rule).await
    }
    async fn put_many(&self, pages: Vec<Page>, rule: PutRule) -> Result<Vec<Option<Put>>> {
        (**self).put_many(pages, rule).await
    }
    async fn remove(&self, url: &[u8], variant: Option<&Variant>) -> Result<bool> {
        (**self).remove(url, variant).await
    }
    async fn remove_at(&self, url: &[u8], time_ms: i64) -> Result<Option<RemovedVersions>> {
        (**self).remove_at(url, None, time_ms).await
    }
    async fn sync(&self) -> Result<()> {
        (**self).sync().await
    }
    async fn changes(&self, since: Option<&str>) -> Result<Vec<Line>> {
        let mut lines = AsyncClient::changes(self, since, Duration::ZERO).await?;
        let mut told = Vec::new();
        while let Some(line) = lines.next().await {
            told.push(line?);
        }
        Ok(told)
    }
    async fn body_of(&self, page: &Page, version: Version) -> Result<Option<Vec<u8>>> {
        let read = |body: &mut dyn std::io::Read| {
            let mut bytes = Vec::new();
            body.read_to_end(&mut bytes).expect("readable");
            Ok(bytes)
        };
        AsyncClient::body_of(self, page, version, read).await
    }
    async fn import(&self, warc: Vec<u8>) -> Result<u64> {
        let source = std::io::Cursor::new(warc);
        let sent = AsyncClient::import(self, "a.warc", ArchiveForm::Warc, source, ImportOptions::new()).await?;
        Ok(sent.report.stored)
    }
}
