//! Records of a snapshot's contents, in their order. docs/FRONTIER.md shows the same tables, says
//! how often each record stands there, and what stands between them: names, and lists of numbers.

use filemap_io::layout;
use filemap_io::layout::Field;

layout! {
    /// Begins each block of 64 KiB, or less if it is the last one.
    pub(crate) struct BodyBlock {
        0 CRC: u32 = "CRC-32 of the frontier's id, the file's number, the block's number (8 bytes each) and the rest of the block";
    }
}

layout! {
    /// Begins the contents.
    pub(crate) struct SnapshotHead {
        0 PAGES: u32 = "pages";
        4 HOSTS: u32 = "hosts";
        8 TEXTS_BYTES: u64 = "length of the file of URLs";
        16 SEED: u64 = "seed of the fingerprints";
        24 RENT: u64 = "rent: 0 for crawled pages and seeds, 1 for all, 2 for endorsed pages and seeds";
        32 TAX: u64 = "tax, in parts of 2^32";
        40 VIRTUAL_CREDIT: u64 = "the virtual page's credit";
        48 GROWTH: f64 = "growth of the weight, a double";
        56 WEIGHT: f64 = "weight, a double";
        64 WEIGHTED_TURNS: f64 = "weighted turns, a double";
        72 TURNS: f64 = "turns, a double";
        80 VISITS_SINCE_SWEEP: u64 = "visits since the last sweep";
        88 FETCHES: u64 = "fetches";
        96 REFRESHES: u64 = "refreshes";
        104 FAILURES: u64 = "failures";
        112 VIRTUAL_VISITS: u64 = "virtual visits a fetch";
        120 LINKS_NUMBER: u64 = "number of the file of links; if there is none, this and the next four are zero";
        128 LINKS_BYTES: u64 = "its length";
        136 LINKS_LISTS: u64 = "lists in it";
        144 LINKS_BLOCK: u64 = "the block in it with the next list";
        152 LINKS_AT: u64 = "place of the next list in that block";
    }
}

layout! {
    /// Follows the head, since version 4.
    pub(crate) struct StatusCounts {
        0 QUEUED_CREDIT: u64 = "credit of pages that wait for their first fetch";
        8 HAS_RECRAWLS: u64 = "1 if fetched pages are fetched again";
        16 READY: u32 = "pages that are queued for their first fetch";
        20 WAITING: u32 = "pages never fetched that wait for a retry";
        24 IN_FLIGHT: u32 = "pages in flight for the first time";
        28 FETCHED: u32 = "fetched pages that wait for their recrawl, if any";
        32 DUE: u32 = "fetched pages that are queued for their recrawl";
        36 REFRESHING: u32 = "fetched pages in flight again";
        40 GONE: u32 = "pages that were given up";
    }
}

/// Counts of pages, in the order of their status.
pub(crate) const PAGES_BY_STATUS: [Field<u32>; 7] = [
    StatusCounts::READY,
    StatusCounts::WAITING,
    StatusCounts::IN_FLIGHT,
    StatusCounts::FETCHED,
    StatusCounts::DUE,
    StatusCounts::REFRESHING,
    StatusCounts::GONE,
];

layout! {
    /// A host's first record.
    pub(crate) struct HostName {
        0 LEN: u16 = "n, the length of the name, which follows";
    }
}

layout! {
    /// Follows a host's name.
    pub(crate) struct HostTimes {
        0 DELAY: u64 = "0, or 1 + delay in ms";
        8 HOLD_UNTIL_MS: u64 = "hold until this time in ms";
        16 BEGAN: u64 = "0, or 1 + begin of the last fetch in ms";
    }
}

layout! {
    /// Follows a host's times, since version 4.
    pub(crate) struct HostPages {
        0 PAGES: u64 = "known pages";
        8 BARE: u32 = "fetched pages without a word";
        12 PROOFS: u32 = "fetched pages of good standing";
    }
}

layout! {
    /// Names a block of rows.
    pub(crate) struct RowsBlock {
        0 SLOT: u32 = "slot in `frontier.pages`";
        4 CRC: u32 = "CRC-32 of the frontier's id, the block's number (4 bytes) and the block";
        8 CREDIT: u64 = "what its rows hold";
    }
}

layout! {
    /// A shape of URLs on a host.
    pub(crate) struct ShapeRecord {
        0 KEY: u64 = "256 times the host, and the shape";
        8 BARE: u32 = "fetched pages of that shape without a word";
        12 PROOFS: u32 = "fetched pages of that shape in good standing";
    }
}

layout! {
    /// Begins a queue.
    pub(crate) struct QueueHead {
        0 HOST: u32 = "host";
        4 KIND: u32 = "0 for first fetches, 1 for refreshes";
        8 READY: u32 = "pages that are queued";
        12 COUNT: u32 = "n, the number of entries (8 bytes each: place, complement of the page, from the high bits on), which follow";
        16 LEFT_OUT: u64 = "the best entry that was left out, or 0";
    }
}

layout! {
    /// Timers left out of memory, since version 6.
    pub(crate) struct TimersLeftOut {
        0 FIRST: u64 = "0, or 1 + the soonest timer that was left out";
        8 LATEST_S: u64 = "the latest second of those";
    }
}

layout! {
    /// Credit that waits for a round, since version 5.
    pub(crate) struct DeliveryRecord {
        0 MEMBERS: u64 = "pages that get rent";
        8 LINKS: u64 = "links told since the last round began, and one for each page that had them";
        16 FETCHES: u64 = "fetches reported since then";
        24 LOOKS: u64 = "lists of links that are examined for each virtual visit";
        32 POT: u64 = "0, or 1 + what the last round collected for a refund";
    }
}

layout! {
    /// A gift to pages.
    pub(crate) struct GiftRecord {
        0 SHARE: u64 = "credit";
        8 WORD: u8 = "what the visited page says: 0 nothing, its standing, 4 more if it vouches";
    }
}

layout! {
    /// A round under way.
    pub(crate) struct RoundRecord {
        0 NEXT: u64 = "the next page";
        8 END: u64 = "the page behind the last one";
        16 LINKS_BYTES: u64 = "of its lists of links: end of the file";
        24 LINKS_BLOCK: u64 = "of its lists of links: the block with the first one";
        32 LINKS_AT: u64 = "of its lists of links: place in that block";
        40 LISTS: u64 = "of its lists of links: how many";
        48 WANTED: u64 = "virtual visits that are wanted";
        56 ERRAND: u64 = "0 none, 1 rent, 2 collecting for a refund, 3 paying it";
        64 FIRST: u64 = "of rent the share, of a refund that is paid how many times a page's credit";
        72 SECOND: u64 = "of a refund that is paid the part of it besides";
        80 POT: u64 = "what is left to pay, or was collected";
    }
}

layout! {
    /// A page that a round has visited.
    pub(crate) struct TakenRecord {
        0 LIST: u32 = "which of the examined lists is its own";
        4 CREDIT: u64 = "credit that was taken";
        12 WORD: u8 = "its word, as in a gift";
    }
}

layout! {
    /// The part of the index on disk, since version 3.
    pub(crate) struct RunsHead {
        0 PAGES: u32 = "pages whose fingerprints are in the runs";
        4 RUNS: u32 = "runs";
    }
}

layout! {
    /// Names a run of the index.
    pub(crate) struct RunRecord {
        0 NUMBER: u64 = "number of the run's file";
        8 BLOCKS: u64 = "blocks";
        16 PAIRS: u64 = "pairs";
    }
}
