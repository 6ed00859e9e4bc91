//! Location of a value record in 40 bits, its exact length in 24, and its size class in 8.

/// Alignment of value records, and the unit of offsets and lengths.
pub(crate) const UNIT_BYTES: u64 = 64;
const OFFSET_BITS: u32 = 24;
const LOCATION_BITS: u32 = 40;
const UNITS_BITS: u32 = 24;

/// Segment number and offset in units: 16 + 24 bits. A segment has up to 1 GiB, a log up to 64
/// TiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Location {
    pub(crate) segment: u16,
    pub(crate) unit: u32,
}

impl Location {
    pub(crate) fn new(segment: u16, offset: u64) -> Location {
        assert!(offset.is_multiple_of(UNIT_BYTES) && offset / UNIT_BYTES < 1 << OFFSET_BITS, "offset {offset}");
        Location { segment, unit: (offset / UNIT_BYTES) as u32 }
    }

    pub(crate) fn offset(self) -> u64 {
        u64::from(self.unit) * UNIT_BYTES
    }

    /// Packs into the low 40 bits.
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.segment) << OFFSET_BITS | u64::from(self.unit)
    }

    /// Unpacks the low 40 bits; ignores the others.
    pub(crate) fn unpack(bits: u64) -> Location {
        Location { segment: (bits >> OFFSET_BITS) as u16, unit: (bits & ((1 << OFFSET_BITS) - 1)) as u32 }
    }
}

/// Location and exact length of a record, in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Extent {
    pub(crate) location: Location,
    /// Length in units, less than 2^24: a record fits in a segment after the file header.
    pub(crate) units: u32,
}

impl Extent {
    /// The extent of a record of `bytes`, padding included. Panics unless it is whole units, fewer
    /// than 2^24.
    pub(crate) fn new(location: Location, bytes: u64) -> Extent {
        assert!(bytes.is_multiple_of(UNIT_BYTES) && bytes / UNIT_BYTES < 1 << UNITS_BITS, "{bytes} bytes");
        Extent { location, units: (bytes / UNIT_BYTES) as u32 }
    }

    pub(crate) fn bytes(self) -> u64 {
        u64::from(self.units) * UNIT_BYTES
    }

    /// Returns the size class that slots store.
    pub(crate) fn size(self) -> SizeClass {
        SizeClass::of(self.bytes())
    }

    pub(crate) fn pack(self) -> u64 {
        self.location.pack() | u64::from(self.units) << LOCATION_BITS
    }

    pub(crate) fn unpack(bits: u64) -> Extent {
        Extent { location: Location::unpack(bits), units: (bits >> LOCATION_BITS) as u32 }
    }
}

/// Upper bound of a record's length in 8 bits: floating point with a mantissa of three bits. A
/// read of this length over-reads by at most an eighth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeClass(pub(crate) u8);

impl SizeClass {
    /// The smallest class that holds `bytes`, 1 byte to 1 GiB.
    pub(crate) fn of(bytes: u64) -> SizeClass {
        let units = bytes.div_ceil(UNIT_BYTES).max(1);
        if units <= 8 {
            return SizeClass(units as u8 - 1);
        }
        // units - 1 = 1mmm.... in binary: round up to the next multiple of 2^shift.
        let shift = (units - 1).ilog2() - 3;
        let mantissa = ((units - 1) >> shift) - 8;
        SizeClass((8 * (shift + 1)) as u8 + mantissa as u8)
    }

    /// Returns the upper bound of the class, in bytes. Defined for all 256 values.
    pub(crate) fn bytes(self) -> u64 {
        let (exponent, mantissa) = (u32::from(self.0 / 8), u64::from(self.0 % 8));
        if exponent == 0 {
            return (mantissa + 1) * UNIT_BYTES;
        }
        ((mantissa + 9) << (exponent - 1)) * UNIT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_class_holds_its_record_and_at_most_an_eighth_more() {
        let mut last = 0;
        for units in (1..5000).chain([1 << 14, (1 << 14) + 1, (1 << 24) - 1, 1 << 24]) {
            let bytes = units * UNIT_BYTES;
            let class = SizeClass::of(bytes);
            assert!(class.bytes() >= bytes, "{units}");
            assert!(class.bytes() <= bytes + bytes / 8, "{units} {}", class.bytes());
            assert!(class.0 >= last);
            last = class.0;
        }
        assert_eq!(SizeClass::of(1).bytes(), 64);
        assert_eq!(SizeClass(255).bytes(), (16 << 30) * UNIT_BYTES);
    }

    #[test]
    fn locations_come_back_from_40_bits() {
        for l in [Location::new(0, 64), Location::new(65_535, (1 << 30) - 64), Location::new(17, 640)] {
            assert!(l.pack() < 1 << 40);
            assert_eq!(Location::unpack(l.pack() | 0xff << 56), l);
            assert_eq!(Location::new(l.segment, l.offset()), l);
        }
    }
}
