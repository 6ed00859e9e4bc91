//! The server over real connections, and the client against it.

mod access;
mod archive;
mod as_store;
mod async_client;
mod calls;
mod captures;
mod changes;
mod hostile;
mod hosts;
mod in_place;
mod inspect;
mod kept_back;
mod kept_back_bodies;
mod kept_back_told;
mod kept_back_views;
mod links;
mod many;
mod openapi;
mod pages;
mod random;
mod seen;
mod served;
mod space;
mod upload;
