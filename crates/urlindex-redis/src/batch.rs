//! A batch of URLs to add: one call for each group, and the verdicts from the answers.

use redis::{Cmd, Value};
use urlindex::Verdict;
use urlindex::idempotent::{RequestId, RequestRefusal};

use crate::kind::{NewRedisSet, Place};
use crate::layout::{Names, Note};

/// A request to add URLs. Sent again, it gets the same answer.
#[derive(Clone, Debug)]
pub struct Batch {
    pub owner: u128,
    pub id: RequestId,
    pub keep_ms: u64,
    pub keep_requests: u32,
    places: Vec<Place>,
    /// Places of each group, in the order of the URLs.
    groups: Vec<(usize, Vec<usize>)>,
}

/// The servers' answer to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// True for each URL that was new.
    New(Vec<bool>),
    Refused(RequestRefusal),
    /// An answer that no function of the set gives.
    Strange(String),
}

impl Batch {
    pub fn new(
        (note, names): (&Note, &Names),
        (owner, id): (u128, RequestId),
        (keep_ms, keep_requests): (u64, u32),
        urls: &[&[u8]],
    ) -> Batch {
        let places: Vec<Place> = urls.iter().map(|url| note.set.place(url, note.seed)).collect();
        let groups = grouped(names, &places);
        Batch { owner, id, keep_ms, keep_requests, places, groups }
    }

    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The calls, one for each group.
    pub fn calls(&self, set: &NewRedisSet, names: &Names) -> Vec<Cmd> {
        let function = format!("filemap_seen_2_{}", set.name());
        let calls = self.groups.iter().map(|(group, urls)| {
            let mut call = redis::cmd("FCALL");
            call.arg(&function).arg(urls.len() + 2);
            call.arg(names.answers(*group, self.owner)).arg(names.count(*group));
            let mut check = crc32fast::Hasher::new();
            for url in urls {
                call.arg(names.key(self.places[*url].key));
                check.update(self.places[*url].item.as_bytes());
                check.update(b"\n");
            }
            call.arg(format!("{:032x}", self.id.to_u128())).arg(format!("{:08x}", check.finalize()));
            call.arg(self.keep_ms).arg(self.keep_requests);
            for url in urls {
                call.arg(&self.places[*url].item);
            }
            call
        });
        calls.collect()
    }

    /// Decodes the answers to [`Batch::calls`]. A request that any group refuses is refused as a
    /// whole, even if other groups have answered.
    pub fn said(&self, answers: &[Value]) -> Said {
        let mut new = vec![false; self.places.len()];
        for ((_, urls), answer) in self.groups.iter().zip(answers) {
            let word = match answer {
                Value::BulkString(bytes) => bytes.as_slice(),
                Value::SimpleString(text) => text.as_bytes(),
                other => return Said::Strange(format!("{other:?}")),
            };
            match word {
                b"forgotten" => return Said::Refused(RequestRefusal::Forgotten),
                b"reused" => return Said::Refused(RequestRefusal::Reused),
                b"ahead" => return Said::Refused(RequestRefusal::Ahead),
                _ if word.len() != urls.len() || word.iter().any(|byte| !b"01".contains(byte)) => {
                    return Said::Strange(String::from_utf8_lossy(word).into_owned());
                }
                _ => urls.iter().zip(word).for_each(|(url, byte)| new[*url] = *byte == b'1'),
            }
        }
        match answers.len() == self.groups.len() {
            true => Said::New(new),
            false => Said::Strange(format!("{} answers to {} calls", answers.len(), self.groups.len())),
        }
    }
}

/// The commands that look up URLs, one for each, without a change.
pub fn looks(note: &Note, names: &Names, places: &[Place]) -> Vec<Cmd> {
    let looks = places.iter().map(|place| {
        let key = names.key(place.key);
        let mut look = match note.set {
            NewRedisSet::Exact { .. } => redis::cmd("SISMEMBER"),
            NewRedisSet::Bitmap { .. } => redis::cmd("GETBIT"),
            NewRedisSet::Bloom { .. } => redis::cmd("BITFIELD_RO"),
        };
        look.arg(key);
        match note.set {
            NewRedisSet::Bloom { .. } => {
                for bit in place.item.split(' ') {
                    look.arg("GET").arg("u1").arg(bit);
                }
            }
            _ => {
                look.arg(&place.item);
            }
        }
        look
    });
    looks.collect()
}

/// Decodes the answer to a look-up.
pub fn is_there(answer: &Value) -> Option<bool> {
    match answer {
        Value::Int(bit) => Some(*bit == 1),
        Value::Boolean(is_there) => Some(*is_there),
        Value::Array(bits) => bits
            .iter()
            .map(|bit| if let Value::Int(bit) = bit { Some(*bit == 1) } else { None })
            .try_fold(true, |all, bit| Some(all && bit?)),
        _ => None,
    }
}

/// The verdict of this kind of set.
pub fn verdict(set: &NewRedisSet, is_new: bool) -> Verdict {
    match (is_new, set) {
        (true, _) => Verdict::New,
        (false, NewRedisSet::Exact { .. }) => Verdict::Seen,
        (false, _) => Verdict::ProbablySeen,
    }
}

fn grouped(names: &Names, places: &[Place]) -> Vec<(usize, Vec<usize>)> {
    let mut of_group = vec![Vec::new(); names.groups()];
    for (nth, place) in places.iter().enumerate() {
        of_group[names.group(place.key)].push(nth);
    }
    of_group.into_iter().enumerate().filter(|(_, urls)| !urls.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(urls: &[&[u8]]) -> (Note, Names, Batch) {
        let note = Note::new(NewRedisSet::Exact { urls: 100_000 }, "exact", 1);
        let names = Names::new("pages", note.groups);
        let batch = Batch::new((&note, &names), (7, RequestId::now()), (1_000, 16), urls);
        (note, names, batch)
    }

    #[test]
    fn verdicts_come_in_the_order_of_the_urls() {
        let urls: Vec<String> = (0..500).map(|nth| format!("http://a.example/{nth}")).collect();
        let urls: Vec<&[u8]> = urls.iter().map(|url| url.as_bytes()).collect();
        let (note, names, batch) = batch(&urls);
        let calls = batch.calls(&note.set, &names);
        assert_eq!(calls.len(), batch.groups.len());
        // Every third URL is new.
        let answer = |(_, urls): &(usize, Vec<usize>)| {
            Value::BulkString(urls.iter().map(|url| if url % 3 == 0 { b'1' } else { b'0' }).collect())
        };
        let answers: Vec<Value> = batch.groups.iter().map(answer).collect();
        let Said::New(new) = batch.said(&answers) else { panic!("they are answers") };
        assert!(new.iter().enumerate().all(|(nth, is_new)| *is_new == (nth % 3 == 0)));
        assert!(matches!(batch.said(&answers[1..]), Said::Strange(_)));
    }

    #[test]
    fn what_is_no_answer_is_none() {
        let (_, _, batch) = batch(&[b"http://a.example/"]);
        for word in ["", "2", "11", "OK"] {
            assert!(matches!(batch.said(&[Value::SimpleString(word.to_owned())]), Said::Strange(_)), "{word}");
        }
        let refused = batch.said(&[Value::BulkString(b"forgotten".to_vec())]);
        assert_eq!(refused, Said::Refused(RequestRefusal::Forgotten));
        assert_eq!(is_there(&Value::Array(vec![Value::Int(1), Value::Int(0)])), Some(false));
        assert_eq!((is_there(&Value::Int(1)), is_there(&Value::Nil)), (Some(true), None));
    }
}
