use super::*;

#[test]
fn dump() {
    let mut dirs = vec!["policies".to_owned(), "tests/trial/policies".to_owned()];
    if let Ok(more) = std::env::var("MORE") { dirs.push(more); }
    for dir in dirs {
        let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let text = std::fs::read_to_string(&path).unwrap();
            let start = std::time::Instant::now();
            match Definition::read(&path.to_string_lossy(), &text) {
                Ok(d) => {
                    let read = start.elapsed();
                    let start = std::time::Instant::now();
                    let f = findings(&d);
                    eprintln!("== {} {} read {:?} check {:?}", path.display(), f.len(), read, start.elapsed());
                    for f in f { eprintln!("{f}\n"); }
                }
                Err(e) => eprintln!("== {} ERR {}", path.display(), e.diagnostic.message),
            }
        }
    }
}
