//! Every decoder of the on-disk format and the scans of both logs, over any bytes, with checksums
//! as they come and made right: a checksum must not be a wall that hides what lies behind it.
//!
//! The first byte says what the rest is; its top bit asks for right checksums.
#![no_main]

use filemap_core::fuzzing::{self, Form, OFFSET, PAGE, STORE_ID};
use filemap_io::Access;
use filemap_io::sim::SimDisk;
use filemap_tests::hostile::forge;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    let is_sealed = first & 0x80 != 0;
    match usize::from(first & 0x0f) {
        nth @ 0..11 => one(Form::ALL[nth], bytes, is_sealed),
        nth => log(bytes, nth % 2 == 0, is_sealed),
    }
});

/// One record, page or header.
fn one(form: Form, bytes: &[u8], is_sealed: bool) {
    let mut bytes = bytes.to_vec();
    if form.is_page() {
        bytes.resize(forge::PAGE, 0);
    }
    if is_sealed {
        seal(form, &mut bytes);
    }
    fuzzing::decode(form, &bytes);
}

/// Seals bytes for the place at which the decoders expect them.
fn seal(form: Form, bytes: &mut Vec<u8>) {
    let lying_at = |at: usize, bytes: &mut Vec<u8>, seal: &dyn Fn(&mut [u8])| {
        let mut file = vec![0; at];
        file.extend_from_slice(bytes);
        seal(&mut file);
        bytes.copy_from_slice(&file[at..]);
    };
    let at = OFFSET as usize;
    match form {
        Form::Header => forge::header(bytes),
        Form::Superblock => forge::superblock(bytes, 0),
        Form::Value => lying_at(at, bytes, &|file| forge::value_record(file, &STORE_ID, 0, at)),
        Form::Key => lying_at(at, bytes, &|file| forge::key_record(file, &STORE_ID, at)),
        Form::Leaf | Form::Node | Form::Changes | Form::Summary => {
            let page = PAGE as usize;
            lying_at(page * forge::PAGE, bytes, &|file| forge::page(file, &STORE_ID, page));
        }
        Form::Name | Form::Runs => {}
        Form::Dictionary => forge::dictionary(bytes, &STORE_ID),
    }
}

/// A whole log. The records to be sealed are those that the bytes themselves lay out, one behind
/// the other.
fn log(bytes: &[u8], is_values: bool, is_sealed: bool) {
    let mut file = vec![0; 64];
    file.extend_from_slice(bytes);
    let mut at = 64;
    while is_sealed && at < file.len() {
        if is_values {
            forge::value_record(&mut file, &STORE_ID, 0, at);
            at = forge::payload(&file, at).end.max(at + 1).next_multiple_of(64);
        } else {
            forge::key_record(&mut file, &STORE_ID, at);
            at = at.saturating_add(56).saturating_add(forge::u32_at(&file, at + 4) as usize).next_multiple_of(16);
        }
    }
    let disk = SimDisk::new(0);
    disk.set_bytes("log", &file);
    let Ok(file) = disk.dir().open("log", Access::Read) else { return };
    fuzzing::scan(&*file, is_values);
}
