//! The snapshot's part about credit that waits, and the round that is under way.

use crate::blocks::{BlockReader, BlockWriter};
use crate::credit::Refund;
use crate::delivery::{Delivery, Errand, Gift, LOOKS_MAX, Parcels, Round, Taken, page_of};
use crate::error::Result;
use crate::failpoint::{Failpoint, planted};
use crate::links::Place;
use crate::trust::Word;

/// Writes it, and how many pages get rent.
pub(super) fn put(blocks: &mut BlockWriter<'_>, delivery: &Delivery, members: u32) -> Result<()> {
    let Delivery { links, fetches, looks, waiting, pot, round } = delivery;
    let pot = pot.map_or(0, |pot| pot.saturating_add(1));
    put_all(blocks, [u64::from(members), *links, *fetches, u64::from(*looks), pot])?;
    put_parcels(blocks, waiting, 0)?;
    let round = round.as_ref().filter(|_| !planted(Failpoint::RoundDropped));
    put_all(blocks, [u64::from(round.is_some())])?;
    round.map_or(Ok(()), |round| put_round(blocks, round))
}

fn put_all<const N: usize>(blocks: &mut BlockWriter<'_>, numbers: [u64; N]) -> Result<()> {
    numbers.iter().try_for_each(|number| blocks.put(&number.to_le_bytes()))
}

/// Writes the parcels from a place on.
fn put_parcels(blocks: &mut BlockWriter<'_>, parcels: &Parcels, from: usize) -> Result<()> {
    put_all(blocks, [parcels.gifts.len() as u64])?;
    for gift in &parcels.gifts {
        blocks.put(&gift.share.to_le_bytes())?;
        blocks.put(&[Word::code(gift.word)])?;
    }
    let left = &parcels.parcels[from..];
    put_all(blocks, [left.len() as u64])?;
    left.iter().try_for_each(|parcel| blocks.put(&parcel.to_le_bytes()))
}

fn put_round(blocks: &mut BlockWriter<'_>, round: &Round) -> Result<()> {
    let Place { bytes, block, at, .. } = round.place;
    put_all(blocks, [u64::from(round.next), u64::from(round.end), bytes, block, at, round.lists, round.wanted])?;
    let errand = match round.errand {
        Errand::None => [0; 3],
        Errand::Rent { share } => [1, share, 0],
        Errand::Collect => [2, 0, 0],
        Errand::Pay(Refund { times, part }) => [3, times, part],
    };
    put_all(blocks, errand)?;
    put_all(blocks, [round.pot])?;
    let [parcels, looks] = round.done;
    put_parcels(blocks, &round.parcels, parcels)?;
    let left = &round.looks[looks..];
    put_all(blocks, [left.len() as u64])?;
    left.iter().try_for_each(|look| blocks.put(&look.to_le_bytes()))?;
    put_all(blocks, [round.taken.len() as u64])?;
    for taken in &round.taken {
        blocks.put(&taken.list.to_le_bytes())?;
        blocks.put(&taken.credit.to_le_bytes())?;
        blocks.put(&[Word::code(taken.word)])?;
    }
    Ok(())
}

/// Reads it, of so many pages and this file of links; and how many pages get rent.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(super) fn read(blocks: &mut BlockReader<'_>, pages: u32, file: &Place) -> Result<(Delivery, u32)> {
    let [members, links, fetches, looks, pot] = take_all(blocks)?;
    let members = u32::try_from(members).ok().filter(|members| *members <= pages);
    let looks = u8::try_from(looks).ok().filter(|looks| (1..=LOOKS_MAX).contains(looks));
    let (Some(members), Some(looks)) = (members, looks) else { return Err(blocks.bad("impossible delivery")) };
    let waiting = read_parcels(blocks, 0..pages)?;
    let round = match blocks.take_u64()? {
        0 => None,
        _ => Some(read_round(blocks, pages, file)?),
    };
    Ok((Delivery { links, fetches, looks, waiting, pot: pot.checked_sub(1), round }, members))
}

fn take_all<const N: usize>(blocks: &mut BlockReader<'_>) -> Result<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = blocks.take_u64()?;
    }
    Ok(numbers)
}

fn read_word(blocks: &mut BlockReader<'_>) -> Result<Option<Word>> {
    Word::of_code(blocks.take::<1>()?[0]).ok_or_else(|| blocks.bad("impossible word"))
}

/// Reads parcels for some pages.
fn read_parcels(blocks: &mut BlockReader<'_>, pages: std::ops::Range<u32>) -> Result<Parcels> {
    let mut parcels = Parcels::default();
    for _ in 0..blocks.take_u64()? {
        let share = blocks.take_u64()?;
        parcels.gifts.push(Gift { share, word: read_word(blocks)? });
    }
    for _ in 0..blocks.take_u64()? {
        let parcel = blocks.take_u64()?;
        if !pages.contains(&page_of(parcel)) || parcel as u32 as usize >= parcels.gifts.len() {
            return Err(blocks.bad("impossible parcel"));
        }
        parcels.parcels.push(parcel);
    }
    Ok(parcels)
}

fn read_round(blocks: &mut BlockReader<'_>, pages: u32, file: &Place) -> Result<Round> {
    let [next, end, bytes, block, at, lists, wanted] = take_all(blocks)?;
    let [errand, first, second] = take_all(blocks)?;
    let [pot] = take_all(blocks)?;
    let is_place = bytes <= file.bytes && block <= bytes && lists <= file.lists;
    if next >= end || end > u64::from(pages) || !is_place || errand > 3 {
        return Err(blocks.bad("impossible round"));
    }
    let (next, end, pages) = (next as u32, end as u32, next as u32..end as u32);
    let errand = match errand {
        0 => Errand::None,
        1 => Errand::Rent { share: first },
        2 => Errand::Collect,
        _ => Errand::Pay(Refund { times: first, part: second }),
    };
    let parcels = read_parcels(blocks, pages.clone())?;
    let (mut looks, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..blocks.take_u64()? {
        let look = blocks.take_u64()?;
        if !pages.contains(&page_of(look)) {
            return Err(blocks.bad("impossible look at a page"));
        }
        looks.push(look);
    }
    for _ in 0..blocks.take_u64()? {
        let (list, credit) = (u32::from_le_bytes(blocks.take()?), blocks.take_u64()?);
        taken.push(Taken { list, credit, word: read_word(blocks)? });
    }
    if file.number == 0 && !(looks.is_empty() && taken.is_empty()) {
        return Err(blocks.bad("a round with virtual visits, and no file of links"));
    }
    let place = Place { bytes, block, at, ..*file };
    let is_sorted = looks.is_sorted() && parcels.parcels.is_sorted();
    let round = Round { next, end, parcels, looks, place, lists, wanted, taken, errand, pot, ..Round::default() };
    if is_sorted { Ok(round) } else { Err(blocks.bad("a round out of order")) }
}
