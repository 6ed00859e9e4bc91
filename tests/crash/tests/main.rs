//! The tests of the crash harness and the cases of recovery, in one program.

mod cases;
mod crash;
mod erasing;
mod overtaken;
mod repair;
