//! Record layouts on disk: each field's offset, type, name and meaning are declared once, with
//! [`layout!`](crate::layout!). Encoding, decoding, checks of reserved bytes, the tables of the
//! format's documentation and field listings are derived from that.
//!
//! Invariants: numbers are little-endian; the fields of a layout are contiguous, which the
//! compiler checks.

use std::fmt;
use std::marker::PhantomData;

use byteorder::{ByteOrder, LittleEndian};

/// The type of a field.
///
/// ```
/// use filemap_io::layout::Wire;
/// let mut bytes = [0; 4];
/// 7u32.write(&mut bytes);
/// assert_eq!((u32::read(&bytes), 7u32.show()), (7, "7".to_owned()));
/// assert_eq!([0xab_u8, 1].show(), "ab01");
/// ```
pub trait Wire: Copy {
    /// Length of a field in bytes.
    const BYTES: usize;
    /// True for reserved bytes, which are zero.
    const IS_RESERVED: bool = false;

    /// Reads the value at the front of `b`, which is long enough.
    fn read(b: &[u8]) -> Self;

    /// Writes the value to the front of `b`, which is long enough.
    fn write(self, b: &mut [u8]);

    /// The value as text: a number in decimal, bytes in hexadecimal.
    fn show(self) -> String;
}

macro_rules! numbers {
    ($($type:ty, $read:ident, $write:ident;)+) => {$(
        impl Wire for $type {
            const BYTES: usize = size_of::<$type>();

            #[inline]
            fn read(b: &[u8]) -> $type {
                LittleEndian::$read(b)
            }

            #[inline]
            fn write(self, b: &mut [u8]) {
                LittleEndian::$write(b, self);
            }

            fn show(self) -> String {
                self.to_string()
            }
        }
    )+};
}

numbers! {
    u16, read_u16, write_u16;
    u32, read_u32, write_u32;
    u64, read_u64, write_u64;
    u128, read_u128, write_u128;
    i32, read_i32, write_i32;
    i64, read_i64, write_i64;
    f32, read_f32, write_f32;
    f64, read_f64, write_f64;
}

impl Wire for u8 {
    const BYTES: usize = 1;

    #[inline]
    fn read(b: &[u8]) -> u8 {
        b[0]
    }

    #[inline]
    fn write(self, b: &mut [u8]) {
        b[0] = self;
    }

    fn show(self) -> String {
        self.to_string()
    }
}

impl<const N: usize> Wire for [u8; N] {
    const BYTES: usize = N;

    #[inline]
    fn read(b: &[u8]) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&b[..N]);
        out
    }

    #[inline]
    fn write(self, b: &mut [u8]) {
        b[..N].copy_from_slice(&self);
    }

    fn show(self) -> String {
        self.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Bytes of text, NUL-padded.
///
/// ```
/// use filemap_io::layout::{Text, Wire};
/// assert_eq!(Text(*b"whatwg\0\0").show(), "whatwg");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<const N: usize>(pub [u8; N]);

impl<const N: usize> Wire for Text<N> {
    const BYTES: usize = N;

    #[inline]
    fn read(b: &[u8]) -> Text<N> {
        Text(Wire::read(b))
    }

    #[inline]
    fn write(self, b: &mut [u8]) {
        self.0.write(b);
    }

    fn show(self) -> String {
        String::from_utf8_lossy(&self.0).trim_end_matches('\0').to_owned()
    }
}

/// A value that listings never show.
///
/// ```
/// use filemap_io::layout::{Secret, Wire};
/// assert_eq!(Secret(7u64).show(), "secret");
/// ```
#[derive(Clone, Copy)]
pub struct Secret<T>(pub T);

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl<T: Wire> Wire for Secret<T> {
    const BYTES: usize = T::BYTES;

    #[inline]
    fn read(b: &[u8]) -> Secret<T> {
        Secret(T::read(b))
    }

    #[inline]
    fn write(self, b: &mut [u8]) {
        self.0.write(b);
    }

    fn show(self) -> String {
        "secret".to_owned()
    }
}

/// Reserved bytes, all zero.
///
/// ```
/// use filemap_io::layout::{Wire, Zeros};
/// let mut bytes = [7; 4];
/// Zeros::<3>.write(&mut bytes);
/// assert_eq!(bytes, [0, 0, 0, 7]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Zeros<const N: usize>;

impl<const N: usize> Wire for Zeros<N> {
    const BYTES: usize = N;
    const IS_RESERVED: bool = true;

    fn read(_: &[u8]) -> Zeros<N> {
        Zeros
    }

    fn write(self, b: &mut [u8]) {
        b[..N].fill(0);
    }

    fn show(self) -> String {
        "zero".to_owned()
    }
}

/// Reads the value at offset `at`, which lies within `bytes`.
///
/// # Panics
/// If the value does not lie within `bytes`.
#[inline]
pub fn get<T: Wire>(bytes: &[u8], at: usize) -> T {
    T::read(&bytes[at..])
}

/// Reads the value at offset `at`; `None` if `bytes` is too short.
///
/// ```
/// use filemap_io::layout::try_get;
/// assert_eq!(try_get::<u16>(&[9, 1, 2], 1), Some(0x0201));
/// assert_eq!((try_get::<u16>(&[9, 1, 2], 2), try_get::<u16>(&[9, 1, 2], 9)), (None, None));
/// ```
#[inline]
pub fn try_get<T: Wire>(bytes: &[u8], at: usize) -> Option<T> {
    bytes.get(at..)?.get(..T::BYTES).map(T::read)
}

/// Takes a value off the front; `None`, and nothing taken, if `rest` is too short.
///
/// ```
/// use filemap_io::layout::take;
/// let mut rest = &[1, 2, 3][..];
/// assert_eq!((take::<u16>(&mut rest), rest), (Some(0x0201), &[3][..]));
/// assert_eq!((take::<u16>(&mut rest), rest), (None, &[3][..]));
/// ```
#[inline]
pub fn take<T: Wire>(rest: &mut &[u8]) -> Option<T> {
    let (value, behind) = rest.split_at_checked(T::BYTES)?;
    *rest = behind;
    Some(T::read(value))
}

/// Appends a value.
///
/// ```
/// let mut bytes = vec![9];
/// filemap_io::layout::push(&mut bytes, 0x0201u16);
/// assert_eq!(bytes, [9, 1, 2]);
/// ```
#[inline]
pub fn push<T: Wire>(to: &mut Vec<u8>, value: T) {
    let at = to.len();
    to.resize(at + T::BYTES, 0);
    value.write(&mut to[at..]);
}

/// A field of a layout.
///
/// ```
/// use filemap_io::layout::Field;
/// const SECOND: Field<u16> = Field::new(2);
/// let mut record = [0; 4];
/// SECOND.put(&mut record, 0x0201);
/// assert_eq!((record, SECOND.get(&record), SECOND.end()), ([0, 0, 1, 2], 0x0201, 4));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Field<T> {
    /// Byte offset in the record.
    pub at: usize,
    of: PhantomData<T>,
}

impl<T: Wire> Field<T> {
    /// The field at a byte offset.
    pub const fn new(at: usize) -> Field<T> {
        Field { at, of: PhantomData }
    }

    /// Byte offset of the field's end.
    pub const fn end(self) -> usize {
        self.at + T::BYTES
    }

    /// The field's value in a record.
    ///
    /// # Panics
    /// If the record is shorter than [`Field::end`].
    #[inline]
    pub fn get(self, record: &[u8]) -> T {
        get(record, self.at)
    }

    /// Sets the field's value in a record.
    ///
    /// # Panics
    /// As [`Field::get`].
    #[inline]
    pub fn put(self, record: &mut [u8], value: T) {
        value.write(&mut record[self.at..]);
    }
}

/// A field as documentation and listings show it.
///
/// ```
/// filemap_io::layout! {
///     /// A pair.
///     pub struct Pair {
///         0 FIRST: u32 = "the first";
///         4 SECOND: u32 = "the second";
///     }
/// }
/// let row = Pair::ROWS[1];
/// assert_eq!((row.at, row.bytes, row.name, row.text), (4, 4, "second", "the second"));
/// assert_eq!(row.show(&[1, 0, 0, 0, 2, 0, 0, 0]).as_deref(), Some("2"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Byte offset.
    pub at: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// True if the bytes are reserved, and zero.
    pub is_reserved: bool,
    /// Name, in lower case.
    pub name: &'static str,
    /// Meaning of the field.
    pub text: &'static str,
    show: fn(&[u8]) -> String,
}

impl Row {
    /// The row of a field.
    pub const fn of<T: Wire>(at: usize, name: &'static str, text: &'static str) -> Row {
        Row { at, bytes: T::BYTES, is_reserved: T::IS_RESERVED, name, text, show: |b| T::read(b).show() }
    }

    /// The field's value in a record, as text; `None` if the record is too short.
    pub fn show(&self, record: &[u8]) -> Option<String> {
        let bytes = record.get(self.at..self.at + self.bytes)?;
        Some((self.show)(bytes))
    }
}

/// Converts the name of a constant to lower case.
#[doc(hidden)]
pub const fn lower<const N: usize>(name: &str) -> [u8; N] {
    let (mut out, mut at) = ([0; N], 0);
    while at < N {
        out[at] = name.as_bytes()[at].to_ascii_lowercase();
        at += 1;
    }
    out
}

/// A part of variable length after the fields: offset, length and meaning, in words.
pub type Open = (&'static str, &'static str, &'static str);

/// The rows of a layout's table, in Markdown.
pub fn table(rows: &[Row], open: &[Open]) -> Vec<String> {
    let fields = rows.iter().map(|row| format!("| {} | {} | {} |", row.at, row.bytes, row.text));
    let cell = |text: &str| if text.is_empty() { String::new() } else { format!(" {text}") };
    let open = open.iter().map(|(at, bytes, text)| format!("|{} |{} | {text} |", cell(at), cell(bytes)));
    fields.chain(open).collect()
}

/// The same table with its heading.
pub fn markdown(rows: &[Row], open: &[Open]) -> String {
    let lines = table(rows, open).join("\n");
    format!("| offset | size | field |\n|---|---|---|\n{lines}\n")
}

/// Offset of the end of the last field.
///
/// # Panics
/// If the fields leave a gap or overlap; in a constant that is a compile error.
pub const fn end(rows: &[Row]) -> usize {
    let (mut at, mut nth) = (rows[0].at, 0);
    while nth < rows.len() {
        assert!(rows[nth].at == at, "the fields of a layout leave a gap, or overlap");
        at += rows[nth].bytes;
        nth += 1;
    }
    at
}

/// Returns whether all reserved bytes of a record are zero.
pub fn is_reserved_zero(rows: &[Row], record: &[u8]) -> bool {
    let mut reserved = rows.iter().filter(|row| row.is_reserved);
    reserved.all(|row| record[row.at..row.at + row.bytes].iter().all(|b| *b == 0))
}

/// Declares a layout: a type with a constant [`Field`](crate::layout::Field) for each field,
/// `BYTES` up to the end of the last field, `ROWS` and `OPEN` for the documentation. Parts of
/// variable length come after the fields, each behind `..`.
///
/// ```
/// filemap_io::layout! {
///     /// A pair.
///     pub struct Pair {
///         0 FIRST: u32 = "the first";
///         4 RESERVED: filemap_io::layout::Zeros<4> = "reserved, zero";
///         8 SECOND: u64 = "the second";
///         .. "16", "" = "its name";
///     }
/// }
/// let mut record = [0; Pair::BYTES];
/// Pair::SECOND.put(&mut record, 7);
/// assert_eq!((Pair::FIRST.get(&record), Pair::SECOND.get(&record)), (0, 7));
/// assert_eq!(filemap_io::layout::table(Pair::ROWS, Pair::OPEN)[3], "| 16 | | its name |");
/// ```
#[macro_export]
macro_rules! layout {
    ($(#[$doc:meta])* $vis:vis struct $name:ident {
        $($at:literal $field:ident: $type:ty = $text:literal;)+
        $(.. $place:literal, $size:literal = $open:literal;)*
    }) => {
        $(#[$doc])*
        $vis struct $name;

        #[allow(dead_code, reason = "reserved fields are named, and never read by name")]
        impl $name {
            $(
                #[doc = $text]
                $vis const $field: $crate::layout::Field<$type> = $crate::layout::Field::new($at);
            )+
            /// Bytes up to the end of the last field.
            $vis const BYTES: usize = $crate::layout::end(Self::ROWS);
            /// The fields.
            $vis const ROWS: &'static [$crate::layout::Row] = &[$({
                const LOWER: [u8; stringify!($field).len()] = $crate::layout::lower(stringify!($field));
                let name = match ::std::str::from_utf8(&LOWER) {
                    Ok(name) => name,
                    Err(_) => stringify!($field),
                };
                $crate::layout::Row::of::<$type>($at, name, $text)
            }),+];
            /// The parts of variable length after the fields.
            $vis const OPEN: &'static [$crate::layout::Open] = &[$(($place, $size, $open)),*];
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::layout! {
        /// All types.
        struct All {
            0 BYTE: u8 = "a byte";
            1 SHORT: u16 = "two";
            3 RESERVED_1: Zeros<1> = "reserved, zero";
            4 SINGLE: f32 = "a float";
            8 DOUBLE: f64 = "a double";
            16 WIDE: u128 = "sixteen";
            32 RESERVED_2: Zeros<8> = "reserved, zero";
            40 SIGNED: i64 = "a time";
            48 ID: [u8; 3] = "an id";
            51 RESERVED_3: Zeros<13> = "reserved, zero";
        }
    }

    #[test]
    fn fields_come_back_and_lie_where_they_are_declared() {
        let mut record = [0; All::BYTES];
        All::BYTE.put(&mut record, 1);
        All::SHORT.put(&mut record, 0x0302);
        All::SINGLE.put(&mut record, 0.25);
        All::DOUBLE.put(&mut record, 0.5);
        All::WIDE.put(&mut record, u128::MAX - 1);
        All::SIGNED.put(&mut record, -2);
        All::ID.put(&mut record, *b"abc");
        assert_eq!(record[..3], [1, 2, 3]);
        assert_eq!((All::BYTE.get(&record), All::SHORT.get(&record), All::ID.get(&record)), (1, 0x0302, *b"abc"));
        assert_eq!((All::WIDE.get(&record), All::SIGNED.get(&record)), (u128::MAX - 1, -2));
        assert_eq!((All::SINGLE.get(&record), All::DOUBLE.get(&record)), (0.25, 0.5));
    }

    #[test]
    fn a_field_is_shown_under_its_name_and_not_beyond_the_record() {
        let mut record = [0; All::BYTES];
        All::SHORT.put(&mut record, 770);
        All::SIGNED.put(&mut record, -2);
        let shown = |name| All::ROWS.iter().find(|row| row.name == name).and_then(|row| row.show(&record));
        assert_eq!((shown("short").as_deref(), shown("signed").as_deref()), (Some("770"), Some("-2")));
        assert_eq!((shown("id").as_deref(), shown("reserved_1").as_deref()), (Some("000000"), Some("zero")));
        assert_eq!(All::ROWS[1].show(&record[..2]), None);
    }

    #[test]
    fn only_reserved_bytes_must_be_zero() {
        let mut record = [7; All::BYTES];
        All::RESERVED_1.put(&mut record, Zeros);
        All::RESERVED_2.put(&mut record, Zeros);
        All::RESERVED_3.put(&mut record, Zeros);
        assert!(is_reserved_zero(All::ROWS, &record));
        for at in [3, 32, 39, 51, 63] {
            record[at] = 1;
            assert!(!is_reserved_zero(All::ROWS, &record), "byte {at}");
            record[at] = 0;
        }
    }

    #[test]
    #[should_panic(expected = "leave a gap, or overlap")]
    fn fields_that_overlap_are_refused() {
        end(&[Row::of::<u32>(0, "a", ""), Row::of::<u32>(3, "b", "")]);
    }

    #[test]
    #[should_panic(expected = "leave a gap, or overlap")]
    fn fields_that_leave_a_gap_are_refused() {
        end(&[Row::of::<u32>(0, "a", ""), Row::of::<u32>(5, "b", "")]);
    }
}
