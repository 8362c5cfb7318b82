//! `fabric-injector man`.

use std::fs;

use insta::assert_snapshot;

use super::{folder, run, run_in};

#[test]
fn the_page_is_printed() {
    let run = run(&["man"], "").exits(0);
    assert_eq!(run.stderr, "");
    assert!(run.text().contains(".TH fabric-injector 1"), "{}", run.text());
}

#[test]
fn a_page_for_each_command_is_written() {
    let folder = folder(&[]);
    let run = run_in(folder.path(), &["man", "--dir", "share/man1"], "").exits(0);
    run.writes_nothing();
    let page = |name: &str| fs::read_to_string(folder.path().join("share/man1").join(name)).expect(name);
    assert!(page("fabric-injector.1").contains("fabric\\-injector\\-mutate(1)"));
    let mutate = page("fabric-injector-mutate.1");
    for part in
        [".TH fabric-injector-mutate 1", "\\-\\-policy", "FABRIC_INJECTOR_POLICY", "Exit status: 0 done"]
    {
        assert!(mutate.contains(part), "no `{part}` in\n{mutate}");
    }
    assert!(page("fabric-injector-policy-show.1").contains("NAME|FILE"));
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = folder(&[("file", "")]);
    assert_snapshot!(run_in(folder.path(), &["man", "--dir", "file"], "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: the pages cannot be written to file: File exists (os error 17)
    ");
}
