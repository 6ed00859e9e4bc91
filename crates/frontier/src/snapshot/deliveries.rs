//! The snapshot's deliveries: waiting credit, and the current round.

use crate::blocks::{BlockReader, BlockWriter};
use crate::credit::Refund;
use crate::delivery::{Delivery, Errand, Gift, LOOKS_MAX, Parcels, Round, Taken, page_of};
use crate::error::Result;
use crate::failpoint::{Failpoint, planted};
use crate::format::body::{DeliveryRecord, GiftRecord, RoundRecord, TakenRecord};
use crate::links::Place;
use crate::trust::Word;

/// Writes the deliveries, and the number of pages that get rent.
pub(super) fn put(blocks: &mut BlockWriter<'_>, delivery: &Delivery, members: u32) -> Result<()> {
    let Delivery { links, fetches, looks, waiting, pot, round } = delivery;
    let pot = pot.map_or(0, |pot| pot.saturating_add(1));
    let mut record = [0; DeliveryRecord::BYTES];
    DeliveryRecord::MEMBERS.put(&mut record, u64::from(members));
    DeliveryRecord::LINKS.put(&mut record, *links);
    DeliveryRecord::FETCHES.put(&mut record, *fetches);
    DeliveryRecord::LOOKS.put(&mut record, u64::from(*looks));
    DeliveryRecord::POT.put(&mut record, pot);
    blocks.put(&record)?;
    put_parcels(blocks, waiting, 0)?;
    let round = round.as_ref().filter(|_| !planted(Failpoint::RoundDropped));
    blocks.put_number(u64::from(round.is_some()))?;
    round.map_or(Ok(()), |round| put_round(blocks, round))
}

/// Writes the parcels from index `from` on.
fn put_parcels(blocks: &mut BlockWriter<'_>, parcels: &Parcels, from: usize) -> Result<()> {
    blocks.put_number(parcels.gifts.len() as u64)?;
    for gift in &parcels.gifts {
        let mut record = [0; GiftRecord::BYTES];
        GiftRecord::SHARE.put(&mut record, gift.share);
        GiftRecord::WORD.put(&mut record, Word::code(gift.word));
        blocks.put(&record)?;
    }
    blocks.put_list(parcels.parcels[from..].iter().copied())
}

fn put_round(blocks: &mut BlockWriter<'_>, round: &Round) -> Result<()> {
    let Place { bytes, block, at, .. } = round.place;
    let [errand, first, second] = match round.errand {
        Errand::None => [0; 3],
        Errand::Rent { share } => [1, share, 0],
        Errand::Collect => [2, 0, 0],
        Errand::Pay(Refund { times, part }) => [3, times, part],
    };
    let mut record = [0; RoundRecord::BYTES];
    RoundRecord::NEXT.put(&mut record, u64::from(round.next));
    RoundRecord::END.put(&mut record, u64::from(round.end));
    RoundRecord::LINKS_BYTES.put(&mut record, bytes);
    RoundRecord::LINKS_BLOCK.put(&mut record, block);
    RoundRecord::LINKS_AT.put(&mut record, at);
    RoundRecord::LISTS.put(&mut record, round.lists);
    RoundRecord::WANTED.put(&mut record, round.wanted);
    RoundRecord::ERRAND.put(&mut record, errand);
    RoundRecord::FIRST.put(&mut record, first);
    RoundRecord::SECOND.put(&mut record, second);
    RoundRecord::POT.put(&mut record, round.pot);
    blocks.put(&record)?;
    let [parcels, looks] = round.done;
    put_parcels(blocks, &round.parcels, parcels)?;
    blocks.put_list(round.looks[looks..].iter().copied())?;
    blocks.put_number(round.taken.len() as u64)?;
    for taken in &round.taken {
        let mut record = [0; TakenRecord::BYTES];
        TakenRecord::LIST.put(&mut record, taken.list);
        TakenRecord::CREDIT.put(&mut record, taken.credit);
        TakenRecord::WORD.put(&mut record, Word::code(taken.word));
        blocks.put(&record)?;
    }
    Ok(())
}

/// Reads the deliveries of `pages` pages, and the number of those that get rent.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(super) fn read(blocks: &mut BlockReader<'_>, pages: u32, file: &Place) -> Result<(Delivery, u32)> {
    let record: [u8; DeliveryRecord::BYTES] = blocks.take()?;
    let (links, fetches) = (DeliveryRecord::LINKS.get(&record), DeliveryRecord::FETCHES.get(&record));
    let members = u32::try_from(DeliveryRecord::MEMBERS.get(&record)).ok().filter(|members| *members <= pages);
    let looks = u8::try_from(DeliveryRecord::LOOKS.get(&record)).ok();
    let looks = looks.filter(|looks| (1..=LOOKS_MAX).contains(looks));
    let (Some(members), Some(looks)) = (members, looks) else { return Err(blocks.bad("impossible delivery")) };
    let waiting = read_parcels(blocks, 0..pages)?;
    let round = match blocks.take_number::<u64>()? {
        0 => None,
        _ => Some(read_round(blocks, pages, file)?),
    };
    let pot = DeliveryRecord::POT.get(&record).checked_sub(1);
    Ok((Delivery { links, fetches, looks, waiting, pot, round }, members))
}

fn checked_word(blocks: &BlockReader<'_>, code: u8) -> Result<Option<Word>> {
    Word::of_code(code).ok_or_else(|| blocks.bad("impossible word"))
}

/// Reads parcels for a range of pages.
fn read_parcels(blocks: &mut BlockReader<'_>, pages: std::ops::Range<u32>) -> Result<Parcels> {
    let mut parcels = Parcels::default();
    for _ in 0..blocks.take_count()? {
        let record: [u8; GiftRecord::BYTES] = blocks.take()?;
        let word = checked_word(blocks, GiftRecord::WORD.get(&record))?;
        parcels.gifts.push(Gift { share: GiftRecord::SHARE.get(&record), word });
    }
    for _ in 0..blocks.take_count()? {
        let parcel: u64 = blocks.take_number()?;
        if !pages.contains(&page_of(parcel)) || parcel as u32 as usize >= parcels.gifts.len() {
            return Err(blocks.bad("impossible parcel"));
        }
        parcels.parcels.push(parcel);
    }
    Ok(parcels)
}

fn read_round(blocks: &mut BlockReader<'_>, pages: u32, file: &Place) -> Result<Round> {
    let record: [u8; RoundRecord::BYTES] = blocks.take()?;
    let (next, end) = (RoundRecord::NEXT.get(&record), RoundRecord::END.get(&record));
    let (bytes, block) = (RoundRecord::LINKS_BYTES.get(&record), RoundRecord::LINKS_BLOCK.get(&record));
    let (at, lists) = (RoundRecord::LINKS_AT.get(&record), RoundRecord::LISTS.get(&record));
    let (wanted, pot) = (RoundRecord::WANTED.get(&record), RoundRecord::POT.get(&record));
    let (errand, first) = (RoundRecord::ERRAND.get(&record), RoundRecord::FIRST.get(&record));
    let is_place = bytes <= file.bytes && block <= bytes && lists <= file.lists;
    if next >= end || end > u64::from(pages) || !is_place || errand > 3 {
        return Err(blocks.bad("impossible round"));
    }
    let (next, end, pages) = (next as u32, end as u32, next as u32..end as u32);
    let errand = match errand {
        0 => Errand::None,
        1 => Errand::Rent { share: first },
        2 => Errand::Collect,
        _ => Errand::Pay(Refund { times: first, part: RoundRecord::SECOND.get(&record) }),
    };
    let parcels = read_parcels(blocks, pages.clone())?;
    let (mut looks, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..blocks.take_count()? {
        let look: u64 = blocks.take_number()?;
        if !pages.contains(&page_of(look)) {
            return Err(blocks.bad("impossible look at a page"));
        }
        looks.push(look);
    }
    for _ in 0..blocks.take_count()? {
        let record: [u8; TakenRecord::BYTES] = blocks.take()?;
        let word = checked_word(blocks, TakenRecord::WORD.get(&record))?;
        taken.push(Taken { list: TakenRecord::LIST.get(&record), credit: TakenRecord::CREDIT.get(&record), word });
    }
    if file.number == 0 && !(looks.is_empty() && taken.is_empty()) {
        return Err(blocks.bad("a round has virtual visits, but there is no file of links"));
    }
    let place = Place { bytes, block, at, ..*file };
    let is_sorted = looks.is_sorted() && parcels.parcels.is_sorted();
    let round = Round { next, end, parcels, looks, place, lists, wanted, taken, errand, pot, ..Round::default() };
    if is_sorted { Ok(round) } else { Err(blocks.bad("a round out of order")) }
}
