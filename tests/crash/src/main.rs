//! temporary driver words words words words words words
use std::time::Instant;
fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let mut count = filemap_crash::Count::default();
    let t = Instant::now();
    for seed in args[0]..args[0] + args[1] {
        match filemap_crash::hunt::run(seed, None) {
            Ok(c) => count.add(c),
            Err(v) => println!("seed {seed}: {}", v.what.chars().take(600).collect::<String>()),
        }
    }
    println!("{count:?} {:?}", t.elapsed());
}
