//! The tests of the frontier through its public interface, in one program.

#[path = "../src/credit.rs"]
#[allow(dead_code, reason = "the frontier uses the rest")]
mod credit;
#[path = "../src/grow.rs"]
#[allow(dead_code, reason = "the frontier uses the rest")]
mod grow;
#[path = "../examples/opic/mod.rs"]
#[allow(dead_code, reason = "other examples use the rest")]
mod opic;
#[path = "../src/place.rs"]
mod place;
#[path = "../src/shares.rs"]
#[allow(dead_code, reason = "the frontier uses the rest")]
mod shares;
#[path = "../src/slots.rs"]
mod slots;
#[path = "../src/trust.rs"]
#[allow(dead_code, reason = "the frontier uses the rest")]
mod trust;

mod kill;
mod quality;
mod web;
