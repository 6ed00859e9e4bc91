//! Damage to any byte of a mailbox is reported, or changes nothing that is read.

use super::*;

fn file(disk: &SimDisk, nth: usize) -> String {
    let mut files: Vec<String> = disk.names().into_iter().filter(|name| name.ends_with(".mail")).collect();
    files.sort();
    files[nth].clone()
}

/// Flips a byte of a file.
fn turn(disk: &SimDisk, name: &str, at: u64) {
    let file = disk.dir().open(name, filemap_io::Access::Write).expect("there");
    let mut byte = [0];
    file.read_at(&mut byte, at).expect("read");
    file.write_at(&[byte[0] ^ 0x10], at).expect("written");
}

#[test]
fn a_turned_byte_is_named_or_harmless() {
    let disk = SimDisk::new(1);
    let boxes = Mailboxes::create_in(disk.dir(), 1, options()).expect("made");
    let mut next = 0;
    while disk.names().iter().filter(|name| name.ends_with(".mail")).count() < 3 {
        next = boxes.post(0, 7, next, &links(next..next + 10)).expect("taken").next;
    }
    let all = waiting(&boxes, 0);
    drop(boxes);
    for nth in 0..3 {
        let name = file(&disk, nth);
        let len = disk.bytes(&name).expect("there").len() as u64;
        for at in (0..len).step_by(37) {
            turn(&disk, &name, at);
            let read = match Mailboxes::open_in(disk.dir(), options()) {
                Ok(boxes) => boxes.expect("there").read(0, None, usize::MAX).map(|part| part.links),
                Err(error) => Err(error),
            };
            match read {
                // A damaged last group looks like a torn write: no later group contradicts it.
                Ok(found) if nth == 2 && found.len() + 10 == all.len() => assert!(all.starts_with(&found)),
                Ok(found) => assert!(found == all, "{name} at {at}: {} of {} links", found.len(), all.len()),
                Err(Error::Storage(error)) => assert!(error.is_corrupt(), "{name} at {at}: {error}"),
                Err(error) => panic!("{name} at {at}: {error}"),
            }
            turn(&disk, &name, at);
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    for (nth, words) in [(0, "is missing"), (1, "is damaged")] {
        let disk = SimDisk::new(1);
        let boxes = Mailboxes::create_in(disk.dir(), 1, options()).expect("made");
        let mut next = 0;
        while disk.names().iter().filter(|name| name.ends_with(".mail")).count() < 3 {
            next = boxes.post(0, 7, next, &links(next..next + 10)).expect("taken").next;
        }
        drop(boxes);
        disk.dir().remove(&file(&disk, nth)).expect("removed");
        let read = Mailboxes::open_in(disk.dir(), options())
            .and_then(|boxes| boxes.expect("there").read(0, None, usize::MAX).map(drop));
        let error = read.expect_err("a file is missing").to_string();
        assert!(error.contains(words), "{error}");
    }
    let (disk, boxes) = made(2);
    boxes.post(1, 7, 0, &links(0..3)).expect("taken");
    drop(boxes);
    disk.dir().remove("mailboxes").expect("removed");
    assert!(Mailboxes::open_in(disk.dir(), options()).expect_err("lost").to_string().contains("mailboxes"));
    assert!(Mailboxes::create_in(disk.dir(), 2, options()).is_err(), "nothing is made over it");
}
