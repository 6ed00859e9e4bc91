//! Names of hosts, each stored once: its text, three bytes for its position, and seven for the
//! look-up from name to number.

use crate::grow::push;
use crate::slots::Slots;

/// Names per group; only the position of a group's first name is stored.
const GROUP: usize = 16;

/// Texts by number.
#[derive(Debug, Default)]
struct Texts {
    text: String,
    /// Offset of each group in the text.
    starts: Vec<u64>,
    /// The length of each name.
    lens: Vec<u16>,
}

impl Texts {
    fn get(&self, number: u32) -> &str {
        let (number, group) = (number as usize, number as usize / GROUP);
        let (Some(start), Some(len)) = (self.starts.get(group), self.lens.get(number)) else { return "" };
        let before: usize = self.lens[group * GROUP..number].iter().map(|len| usize::from(*len)).sum();
        let start = *start as usize + before;
        self.text.get(start..start + usize::from(*len)).unwrap_or("")
    }

    fn add(&mut self, name: &str) {
        if self.lens.len().is_multiple_of(GROUP) {
            push(&mut self.starts, self.text.len() as u64);
        }
        if self.text.capacity() - self.text.len() < name.len() {
            self.text.reserve_exact((self.text.len() / 8).max(name.len()).max(64));
        }
        self.text.push_str(name);
        push(&mut self.lens, name.len() as u16);
    }
}

/// Names by number, and numbers by name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    texts: Texts,
    slots: Slots,
}

impl Names {
    /// The name with a number; empty if there is none.
    pub(crate) fn get(&self, number: u32) -> &str {
        self.texts.get(number)
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.slots.find(self.slots.hash(name.as_bytes()), |number| self.texts.get(number) == name)
    }

    /// Adds a new name, of 65535 bytes at most, under the next number.
    pub(crate) fn add(&mut self, name: &str) {
        let hash = self.slots.hash(name.as_bytes());
        let Names { texts, slots } = self;
        let number = texts.lens.len() as u32;
        texts.add(name);
        slots.add(hash, number, |slots, one| slots.hash(texts.get(one).as_bytes()));
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let Texts { text, starts, lens } = &self.texts;
        let places = starts.capacity() * size_of::<u64>() + lens.capacity() * size_of::<u16>();
        (text.capacity() + places) as u64 + self.slots.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_and_a_number_its_name() {
        let mut names = Names::default();
        let name = |number: u32| format!("{}h{number}.example", "ä".repeat(number as usize % 40));
        for number in 0..5_000 {
            assert_eq!(names.find(&name(number)), None);
            names.add(&name(number));
        }
        for number in 0..5_000 {
            assert_eq!((names.get(number), names.find(&name(number))), (&*name(number), Some(number)));
        }
        assert_eq!((names.get(5_000), names.find("")), ("", None));
        names.add("");
        assert_eq!((names.find(""), names.get(5_000)), (Some(5_000), ""));
    }
}
