//! `fm-crawl`: a crawler over FileMap. Arguments in, pages into a store.

#![allow(dead_code)]

mod links;

fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let mut files = Vec::new();
    fn walk(d: &std::path::Path, out: &mut Vec<std::path::PathBuf>) {
        for e in std::fs::read_dir(d).unwrap().flatten() {
            let t = e.file_type().unwrap();
            if t.is_dir() { walk(&e.path(), out) } else if e.path().extension().is_some_and(|x| x == "html") { out.push(e.path()) }
        }
    }
    walk(std::path::Path::new(&dir), &mut files);
    files.truncate(4000);
    let bodies: Vec<_> = files.iter().map(|f| std::fs::read(f).unwrap()).collect();
    let bytes: usize = bodies.iter().map(Vec::len).sum();
    let b = links::Bounds { links: 10000, url_bytes: 2048 };
    let t = std::time::Instant::now();
    let found: Vec<_> = bodies.iter().map(|x| links::html::find(x, b, false)).collect();
    let t1 = t.elapsed();
    let t = std::time::Instant::now();
    let n: usize = found.iter().zip(&files).map(|(x, f)| links::resolve(x, &format!("http://a.example{}", f.display()), &filemap::Whatwg, b).urls.len()).sum();
    println!("{} pages {} bytes find {:?} {:.0} MB/s resolve {:?} {} links", bodies.len(), bytes, t1, bytes as f64 / 1e6 / t1.as_secs_f64(), t.elapsed(), n);
}
