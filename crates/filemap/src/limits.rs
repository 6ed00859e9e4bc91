//! Public limits, in the lowest layer, so that error texts can name them.

/// [`Variant::MAX_BYTES`](crate::Variant::MAX_BYTES).
pub(crate) const VARIANT_BYTES: usize = 32 << 10;

/// [`meta::MAX_BYTES`](crate::meta::MAX_BYTES).
pub(crate) const DESCRIPTION_BYTES: u64 = 64 << 20;

/// [`meta::VERSION`](crate::meta::VERSION).
pub(crate) const DESCRIPTION_VERSION: u8 = 1;
