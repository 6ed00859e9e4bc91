//! Instruments: latencies, memory, disk, the machine, and the file that gets the results. Lowest
//! floor; everything may call it.

pub mod cgroup;
pub mod latency;
pub mod lines;
pub mod machine;
pub mod usage;
