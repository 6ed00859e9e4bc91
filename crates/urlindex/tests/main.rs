//! The tests of URLs and seen sets through the public interface, in one program.

mod conformance;
mod crawl_rules;
mod kill;
mod paths;
