//! Random numbers determined by a seed and the number of a stream.

/// The generator.
#[derive(Clone, Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// One that is determined by two numbers.
    pub fn new(seed: u64, stream: u64) -> Random {
        Random(fastrand::Rng::with_seed(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// The next 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(..bound)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Bytes that no compressor makes shorter.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.fill(&mut bytes);
        bytes
    }
}
