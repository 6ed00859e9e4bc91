//! The server: a store's pages and lists by HTTP.
//!
//! From the top down: `serve` serves connections; `routes` has the routes; `guard` admits
//! requests; a handler of `pages`, `many`, `seen`, `links`, `lists`, `archive`, `inspect`, `space`
//! or `figures` parses its query (`lookup`), calls the store on a bounded pool (`backend`), sees
//! what access rules allow (`shown`), and responds. `refusal` turns errors into responses.
//!
//! Invariants: no handler blocks a thread of the runtime for long; memory is bounded whatever a
//! client sends or requests; each answer of 500 and above has a line in the log with its cause.

mod archive;
mod backend;
mod changes;
mod counters;
mod crawl;
mod figures;
mod guard;
mod hosts;
mod hour;
mod inline;
mod inspect;
mod links;
mod lists;
mod lookup;
mod many;
mod measure;
mod openapi;
mod options;
mod pages;
mod patient;
mod refusal;
mod routes;
mod seen;
mod serve;
mod shown;
mod space;
mod tokens;

pub use links::boxes::LinkBoxes;
pub use options::ServerOptions;
pub use routes::Server;
pub use seen::external::SharedSet;
pub use seen::sets::SeenSets;
pub use tokens::{Right, Tokens};
