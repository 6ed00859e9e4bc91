//! Variable-length integers in LEB128: seven bits a byte, lowest first, shortest form only.

/// Appends a number.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number off the front; `None`, and nothing taken, if it is not in its shortest form.
#[inline]
pub fn take(rest: &mut &[u8]) -> Option<u64> {
    // Most numbers are small.
    match **rest {
        [byte @ 0..0x80, ref behind @ ..] => {
            *rest = behind;
            Some(u64::from(byte))
        }
        _ => take_long(rest),
    }
}

fn take_long(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, &byte) in rest.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        let is_last = byte & 0x80 == 0;
        // The tenth byte has one bit; a last byte of 0 would be a longer form.
        if at == 9 && bits > 1 || is_last && bits == 0 && at > 0 {
            return None;
        }
        value |= bits << (7 * at);
        if is_last {
            *rest = &rest[at + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_other_forms_are_none() {
        let mut bytes = Vec::new();
        let powers = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, u64::MAX >> bit]);
        let numbers: Vec<u64> = powers.collect();
        numbers.iter().for_each(|number| put(&mut bytes, *number));
        let mut rest = &bytes[..];
        assert!(numbers.iter().all(|number| take(&mut rest) == Some(*number)) && rest.is_empty());
        assert_eq!(take(&mut &[0x80, 0x01][..]), Some(128));
        for wrong in
            [&[][..], &[0x80], &[0x80, 0], &[0xff; 11], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
        {
            assert_eq!(take(&mut &wrong[..]), None, "{wrong:?}");
        }
    }
}
