//! The drills in docs/GUIDE.md, in order: every command in them runs exactly as it is written.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{self, Bench, warc};

/// The numbered items of the section on drills, with the commands of each.
fn drills() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/GUIDE.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let section = guide.split("### Drills").nth(1).unwrap().split("\n### ").next().unwrap();
    let mut drills: Vec<String> = Vec::new();
    for line in section.lines() {
        match line.split_once(". ") {
            Some((number, text)) if number.parse::<usize>() == Ok(drills.len() + 1) => drills.push(text.to_owned()),
            _ if !drills.is_empty() && line.starts_with("   ") => {
                drills.last_mut().unwrap().push_str(&format!(" {}", line.trim()));
            }
            _ => {}
        }
    }
    let commands =
        |drill: &String| drill.split('`').skip(1).step_by(2).filter(|c| c.contains(' ')).map(str::to_owned).collect();
    drills.iter().map(commands).collect()
}

/// Runs a line of the guide in the bench's folder; returns the exit code and the output.
fn shell(bench: &Bench, line: &str) -> (i32, String) {
    let program = harness::program();
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh").args(["-c", line]).env("PATH", path).current_dir(bench.path("")).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_drills_of_the_guide_work_in_order() {
    let bench = Bench::with(&["python-docs.warc.gz", "IAH-urls-wget.warc.gz"]);
    let drills = drills();
    assert_eq!(drills.len(), 4, "{drills:?}");
    let must = |line: &str, code: i32| {
        let (ended, text) = shell(&bench, line);
        assert_eq!(ended, code, "{line}: {text}");
        text
    };
    let [backup, kill, mend, damage] = &drills[..] else { unreachable!() };
    backup.iter().for_each(|line| drop(must(line, 0)));

    // The crawler is killed in the middle of a load, and started again.
    assert!(kill.iter().any(|line| line.starts_with("kill -9")), "{kill:?}");
    let mut load = bench.command("import").arg(warc("cc.warc.gz")).stderr(Stdio::null()).spawn().unwrap();
    load.kill().unwrap();
    load.wait().unwrap();
    bench.run("import", &[warc("cc.warc.gz")]).ended(0);
    bench.run::<&str>("verify", &[]).ended(0);
    must("fm-tool backup pages.fm drill2.fm && rm -r drill.fm && mv drill2.fm drill.fm", 0);

    // No file is left that lists the segments.
    assert!(must(&mend[0], 3).contains("nothing is known to be lost"));
    assert!(mend[1].contains("pages.fm"), "{mend:?}");
    assert_eq!(must(&mend[1], 0), must(&mend[1].replace("pages.fm", "mended.fm"), 0));

    // The commands of the last drill, in order: the damage, the verify, the repair.
    let [overwrite, verify, repair] = &damage[..] else { panic!("{damage:?}") };
    must(overwrite, 0);
    let said = must(verify, 3);
    assert!(said.contains("value0.dat: offset ") && said.contains("http://"), "{said}");
    assert!(must(repair, 3).contains("lost"));
    must("fm-tool verify again.fm", 0);
}
