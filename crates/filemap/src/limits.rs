//! Public limits, in the lowest layer, so that error texts can name them.

/// Value of [`Variant::MAX_BYTES`](crate::Variant::MAX_BYTES).
pub(crate) const VARIANT_BYTES: usize = 32 << 10;

/// Value of [`meta::MAX_BYTES`](crate::page::meta::MAX_BYTES).
pub(crate) const DESCRIPTION_BYTES: u64 = 64 << 20;

/// Value of [`meta::VERSION`](crate::page::meta::VERSION).
pub(crate) const DESCRIPTION_VERSION: u8 = 1;
