//! The framing that both logs share: records at unit boundaries, each checked by itself, so that a scan finds its way
//! past holes and damage.

pub(crate) mod scan;
