//! The columns of a table: names, types, and the parts of a page that each needs.

use std::str::FromStr;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};

filemap_io::named_enum! {
    /// A column of a table. Columns that Common Crawl's index also has use its names.
    ///
    /// ```
    /// use filemap::table::Column;
    /// assert_eq!("fetch_time".parse::<Column>(), Ok(Column::FetchTime));
    /// assert_eq!(Column::FetchTime.name(), "fetch_time");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Column {
        /// `url`: the canonical URL, which is the store's key. Bytes that are not UTF-8 are
        /// percent-encoded.
        Url => "url",
        /// `url_fetched`: the URL as fetched.
        UrlFetched => "url_fetched",
        /// `url_surtkey`: the SURT key, as in CDX indexes.
        UrlSurtkey => "url_surtkey",
        /// `url_host_name`: the host; null if the URL has none.
        UrlHostName => "url_host_name",
        /// `url_host_tld`: the last label of the host; null for an address.
        UrlHostTld => "url_host_tld",
        /// `url_protocol`: the scheme.
        UrlProtocol => "url_protocol",
        /// `url_port`: the port; null if it is the scheme's default.
        UrlPort => "url_port",
        /// `url_path`: the path.
        UrlPath => "url_path",
        /// `url_query`: the query without its `?`; null if there is none.
        UrlQuery => "url_query",
        /// `fetch_time`: time of the fetch, in ms, UTC.
        FetchTime => "fetch_time",
        /// `fetch_status`: the status code; null if there is none.
        FetchStatus => "fetch_status",
        /// `content_digest`: SHA-1 in base 32. The digest of the source if it came with one (of
        /// the bytes on the wire); else that of the body, which is then read. Null without a body.
        ContentDigest => "content_digest",
        /// `content_mime_type`: the media type of `Content-Type`, in lower case.
        ContentMimeType => "content_mime_type",
        /// `content_mime_detected`: the media type detected from the first bytes of the body,
        /// which is read; that of `Content-Type` if none is detected.
        ContentMimeDetected => "content_mime_detected",
        /// `content_charset`: the `charset` of `Content-Type`, in upper case.
        ContentCharset => "content_charset",
        /// `content_truncated`: the reason why the body is truncated; null if it is whole.
        ContentTruncated => "content_truncated",
        /// `variant`: the variant of the URL; null for the page itself.
        Variant => "variant",
        /// `kind`: the WARC name of the record's kind.
        Kind => "kind",
        /// `method`: the request's method, if known.
        Method => "method",
        /// `ip`: the IP address of the server.
        Ip => "ip",
        /// `version_sequence`: identifies the version in the store.
        VersionSequence => "version_sequence",
        /// `stored_bytes`: bytes in the value log.
        StoredBytes => "stored_bytes",
        /// `body_bytes`: the length of the version's own body; mostly 0 for a revisit.
        BodyBytes => "body_bytes",
        /// `headers`: name and value of each field, in order, with repeats. Bytes are decoded as
        /// ISO-8859-1; encoding as ISO-8859-1 restores them.
        Headers => "headers",
        /// `body`: the body; for a revisit that of its original. Null if the body is not in the
        /// store.
        Body => "body",
    }
}

impl Column {
    /// The columns that need no body.
    pub fn without_body() -> Vec<Column> {
        Column::ALL.into_iter().filter(|column| !column.may_need_body()).collect()
    }

    /// Returns whether bodies are read for it, of all or of some rows.
    pub fn may_need_body(self) -> bool {
        matches!(self, Column::Body | Column::ContentDigest | Column::ContentMimeDetected)
    }

    /// Returns whether it holds a part of the URL.
    pub(super) fn is_of_url(self) -> bool {
        use Column::{UrlHostName, UrlHostTld, UrlPath, UrlPort, UrlProtocol, UrlQuery};
        matches!(self, UrlHostName | UrlHostTld | UrlProtocol | UrlPort | UrlPath | UrlQuery)
    }

    /// The Arrow type of the column.
    pub fn data_type(self) -> DataType {
        match self {
            Column::FetchTime => DataType::Timestamp(TimeUnit::Millisecond, Some(UTC.into())),
            Column::FetchStatus => DataType::UInt16,
            Column::UrlPort => DataType::Int32,
            Column::VersionSequence | Column::StoredBytes | Column::BodyBytes => DataType::UInt64,
            Column::Variant => DataType::Binary,
            Column::Body => DataType::LargeBinary,
            Column::Headers => {
                let fields = vec![header_field("key"), header_field("value")];
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields.into()), false)), false)
            }
            _ => DataType::Utf8,
        }
    }

    /// Returns whether it may hold nulls.
    fn is_nullable(self) -> bool {
        use Column::{BodyBytes, FetchTime, Headers, Kind, StoredBytes, Url, UrlFetched, UrlSurtkey, VersionSequence};
        !matches!(
            self,
            Url | UrlFetched | UrlSurtkey | FetchTime | Kind | VersionSequence | StoredBytes | BodyBytes | Headers
        )
    }
}

/// The time zone of [`Column::FetchTime`].
pub(super) const UTC: &str = "UTC";

/// A field of the map of headers: `key` or `value`.
pub(super) fn header_field(name: &str) -> Field {
    Field::new(name, DataType::Utf8, false)
}

/// The schema of a table of these columns.
pub(super) fn schema(columns: &[Column]) -> Schema {
    let field = |column: &Column| Field::new(column.name(), column.data_type(), column.is_nullable());
    Schema::new(columns.iter().map(field).collect::<Vec<_>>())
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Column, String> {
        let found = Column::ALL.into_iter().find(|column| column.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Column::ALL.iter().map(|column| column.name()).collect();
            format!("unknown column `{text}`; the columns are {}", names.join(", "))
        })
    }
}
