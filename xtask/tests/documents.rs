//! The documents: their links lead somewhere, and the figures that they name were measured.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

const FIGURES: &str = "docs/figures.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: impl AsRef<Path>) -> String {
    let path = root().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines that are not code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// The targets of the inline links of a document.
fn links(text: &str) -> Vec<&str> {
    let of_line = |line| str::split(line, "](").skip(1).filter_map(|rest| rest.split(')').next());
    prose(text).flat_map(of_line).collect()
}

/// What a heading is called in a link, by the rule of the hosts that show Markdown.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let text = heading.trim_start_matches('#').trim();
    text.chars().filter(kept).flat_map(char::to_lowercase).collect::<String>().replace(' ', "-")
}

fn anchors(text: &str) -> HashSet<String> {
    prose(text).filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// All that is written here, without what is built or installed. Git is not asked: the tests run where
/// there is none.
fn documents() -> Vec<String> {
    let (mut documents, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder can be read") {
            let entry = entry.expect("a folder can be read");
            let name = entry.file_name().into_string().expect("names are UTF-8");
            let path = folder.join(&name);
            if entry.file_type().expect("it is there").is_dir() {
                if !name.starts_with('.') && !["node_modules", "target"].contains(&&*name) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                documents.push(path.to_str().expect("names are UTF-8").to_owned());
            }
        }
    }
    documents
}

#[test]
fn the_links_of_the_documents_lead_somewhere() {
    let documents = documents();
    assert!(documents.iter().any(|file| file == "README.md"), "the documents are found");
    for document in documents {
        let text = read(&document);
        for link in links(&text) {
            if link.contains("://") {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let folder = Path::new(&document).parent().expect("a file is in a folder");
            let target = if file.is_empty() { PathBuf::from(&document) } else { folder.join(file) };
            assert!(root().join(&target).exists(), "{document}: nothing is at {link}");
            assert!(
                fragment.is_empty() || anchors(&read(&target)).contains(fragment),
                "{document}: {link}: no heading is called so"
            );
        }
    }
}

/// The section of `docs/figures.md` that this family of benchmarks writes.
fn measured(figures: &str, family: &str) -> String {
    let (open, close) = (format!("<!-- bench:{family} -->"), format!("<!-- /bench:{family} -->"));
    assert_eq!(figures.matches(&open).count(), 1, "{FIGURES} has one place for {family}");
    let (_, rest) = figures.split_once(&open).expect("it is there");
    rest.split_once(&close).expect("it ends").0.to_owned()
}

/// The rows of the table under a heading, each a list of cells.
fn rows<'a>(text: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let (_, section) = text.split_once(heading).expect("the heading is there");
    let table = section.lines().skip_while(|line| !line.starts_with('|'));
    table
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}

/// That the section has the figure with which the cell begins, as a word of its own: one that was
/// measured, and not the end of a range, which stands in parentheses.
fn has(section: &str, cell: &str) -> bool {
    let outside = |part: &str| part.split_once(')').map_or(part, |(_, rest)| rest).to_owned();
    let section: String = section.split('(').map(outside).collect();
    let figure = cell.split(' ').next().unwrap_or_default();
    assert!(figure.starts_with(|c: char| c.is_ascii_digit()), "{cell:?} begins with a figure");
    section
        .split(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ','))
        .any(|word| word == figure)
}

#[test]
fn the_readme_names_only_figures_that_were_measured() {
    let figures = read(FIGURES);
    let readme = read("README.md");
    let rows = rows(&readme, "\n## How fast\n");
    assert_eq!(rows.len(), 4, "four headline figures");
    for row in rows {
        let [_, ours, theirs, command] = row[..] else { panic!("{row:?} has four cells") };
        let family = command.trim_matches('`').strip_prefix("cargo xtask bench ");
        let section = measured(&figures, family.expect("the command stands beside its figure"));
        assert!(has(&section, ours), "{FIGURES} has {ours:?}");
        assert!(has(&section, theirs), "{FIGURES} has {theirs:?}");
    }
}

#[test]
fn the_packages_readme_names_only_figures_that_were_measured() {
    let section = measured(&read(FIGURES), "js");
    let readme = read("npm/navlock/README.md");
    assert!(readme.contains("`cargo xtask bench js`"), "it says what measured them");
    let rows = rows(&readme, "\n## Figures\n");
    assert_eq!(rows.len(), 4, "four headline figures");
    for row in rows {
        let [_, ours, theirs] = row[..] else { panic!("{row:?} has three cells") };
        assert!(has(&section, ours), "{FIGURES} has {ours:?}");
        assert!(has(&section, theirs), "{FIGURES} has {theirs:?}");
    }
}
