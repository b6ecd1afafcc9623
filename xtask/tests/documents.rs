//! The documents: their links have targets, the book is complete, no sentence stands on two pages, and the
//! figures that they name were measured.

mod repository;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use self::repository::{files, read, root};

const FIGURES: &str = "docs/figures.md";

/// The beginning of links to files of the repository from pages that are also read elsewhere: the book is built
/// without the sources, and the npm package has only its own files.
const SOURCES: &str = "https://github.com/navlock/navlock/blob/main/";

/// The same for pictures.
const PICTURES: &str = "https://raw.githubusercontent.com/navlock/navlock/main/";

/// The pages that a newcomer reads first, with the number of lines that they may have.
const FIRST_SCREENS: [(&str, usize); 2] = [("README.md", 150), ("npm/navlock/README.md", 120)];

/// The lines of a text that are not in code blocks.
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

/// The name of a heading in a link, by the rule of the hosts that show Markdown.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let text = heading.trim_start_matches('#').trim();
    text.chars().filter(kept).flat_map(char::to_lowercase).collect::<String>().replace(' ', "-")
}

fn anchors(text: &str) -> HashSet<String> {
    prose(text).filter(|line| line.starts_with('#')).map(anchor).collect()
}

fn documents() -> Vec<String> {
    files(&[".md"])
}

#[test]
fn the_links_of_the_documents_lead_somewhere() {
    let documents = documents();
    assert!(documents.iter().any(|file| file == "README.md"), "the documents are found");
    for document in documents {
        let text = read(&document);
        for link in links(&text) {
            let of_root = link.strip_prefix(SOURCES).or_else(|| link.strip_prefix(PICTURES));
            if link.contains("://") && of_root.is_none() {
                continue;
            }
            let path = of_root.unwrap_or(link);
            let (file, fragment) = path.split_once('#').unwrap_or((path, ""));
            let folder = Path::new(&document).parent().expect("a file is in a folder");
            let target = match of_root {
                Some(_) => PathBuf::from(file),
                None if file.is_empty() => PathBuf::from(&document),
                None => folder.join(file),
            };
            assert!(root().join(&target).exists(), "{document}: nothing is at {link}");
            assert!(
                fragment.is_empty() || anchors(&read(&target)).contains(fragment),
                "{document}: {link}: no heading is called so"
            );
        }
    }
}

/// The pieces of a text's prose that stand between backquotes on one line.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whoever renames a file has to change the pages that name it.
#[test]
fn the_architecture_names_only_files_that_are_there() {
    const SOURCES: [&str; 3] = [".rs", ".cjs", ".mjs"];
    let sources = files(&SOURCES);
    let pages: Vec<_> =
        documents().into_iter().filter(|page| page.ends_with("ARCHITECTURE.md")).collect();
    assert!(pages.len() > 5, "each larger crate has its page: {pages:?}");
    let mut missing = Vec::new();
    for page in pages {
        // A file of the page's own crate may be named without its folders.
        let folder = page.trim_end_matches("ARCHITECTURE.md");
        let is_there = |named: &str| {
            let (end, of_crates) = (format!("/{named}"), format!("crates/{named}"));
            sources.iter().any(|file| {
                file == named
                    || *file == of_crates
                    || (file.starts_with(folder) && file.ends_with(&end))
            })
        };
        let text = read(&page);
        let named = quoted(&text).filter(|word| {
            SOURCES.iter().any(|ending| word.ends_with(ending)) && !word.contains(' ')
        });
        missing.extend(named.filter(|name| !is_there(name)).map(|name| format!("{page}: {name}")));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The pages of the book, by their names in `docs`.
fn pages() -> BTreeSet<String> {
    let files = fs::read_dir(root().join("docs")).expect("the book is there");
    let files = files.map(|file| PathBuf::from(file.expect("it can be read").file_name()));
    let pages = files.filter(|file| file.extension().is_some_and(|extension| extension == "md"));
    let names = pages.map(|page| page.to_str().expect("names are UTF-8").to_owned());
    names.filter(|name| name != "SUMMARY.md").collect()
}

#[test]
fn the_book_lists_each_of_its_pages_once() {
    let summary = read("docs/SUMMARY.md");
    let listed: Vec<String> = links(&summary).into_iter().map(str::to_owned).collect();
    let once: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(listed.len(), once.len(), "a page stands twice in docs/SUMMARY.md");
    assert_eq!(once, pages());
}

/// No other file of the repository stands beside a built book.
#[test]
fn the_book_leads_out_of_itself_by_whole_addresses_alone() {
    for page in pages() {
        for link in links(&read(Path::new("docs").join(&page))) {
            assert!(!link.starts_with(".."), "docs/{page}: write {link} as {SOURCES}…");
        }
    }
}

#[test]
fn the_first_screens_are_short() {
    for (file, most) in FIRST_SCREENS {
        let lines = read(file).lines().count();
        assert!(lines <= most, "{file} has {lines} lines, and {most} are the most");
    }
}

/// The sentences of a document, in words without marks. Cells of tables and items of lists are sentences
/// of their own.
fn sentences(text: &str) -> BTreeSet<String> {
    let mut blocks = vec![String::new()];
    for line in prose(text) {
        let trimmed = line.trim_start();
        let begins =
            ["- ", "* ", "#", "<", "1. ", "|"].iter().any(|mark| trimmed.starts_with(mark));
        if trimmed.is_empty() || begins {
            blocks.push(String::new());
        }
        let block = blocks.last_mut().expect("there is one");
        block.push(' ');
        block.push_str(trimmed);
    }
    let ends = [" | ", ". ", "? ", "! ", ": ", "; "];
    let mut sentences = BTreeSet::new();
    for block in blocks {
        let mut parts = vec![block + " "];
        for end in ends {
            parts = parts.iter().flat_map(|part| part.split(end)).map(str::to_owned).collect();
        }
        for part in parts {
            let plain: String =
                part.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
            let words: Vec<_> = plain.split_whitespace().map(str::to_lowercase).collect();
            if words.len() >= LONG {
                sentences.insert(words.join(" "));
            }
        }
    }
    sentences
}

/// Two pages do not share so many words by chance.
const LONG: usize = 12;

/// The book, and what stands beside the sources: the README and the ARCHITECTURE of each folder, and the text
/// before the code of each library.
fn pages_and_sources() -> BTreeSet<String> {
    let pages = pages().into_iter().map(|page| format!("docs/{page}"));
    let is_beside =
        |file: &String| file.ends_with("README.md") || file.ends_with("ARCHITECTURE.md");
    pages.chain(documents().into_iter().filter(is_beside)).chain(files(&["lib.rs"])).collect()
}

/// The text of a page, or the documentation of a library.
fn text(file: &str) -> String {
    let text = read(file);
    if !file.ends_with("lib.rs") {
        return text;
    }
    let lines = text.lines().filter_map(|line| line.strip_prefix("//!"));
    lines.map(str::trim_start).collect::<Vec<_>>().join("\n")
}

/// A fact that stands in two places is soon changed in only one of them.
#[test]
fn no_sentence_stands_on_two_pages() {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut twice = Vec::new();
    for page in pages_and_sources() {
        for sentence in sentences(&text(&page)) {
            if let Some(other) = seen.insert(sentence.clone(), page.clone()) {
                twice.push(format!("{other} and {page}: {sentence}"));
            }
        }
    }
    assert!(seen.len() > 300, "sentences are found: {}", seen.len());
    assert!(twice.is_empty(), "{}", twice.join("\n"));
}

#[test]
fn sentences_are_known_again_whatever_their_marks_and_lines() {
    let one = "# A heading\n\nA lock that nobody holds is *free*, and so it can be\nhad by `whoever` comes first. Short.\n";
    let other = "- a list\n- A lock that nobody holds is free and so it can be had by whoever comes first\n";
    assert_eq!(sentences(one), sentences(other));
    assert_eq!(sentences(one).len(), 1);
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

/// Whether the section has the figure with which the cell begins, as a word of its own. The figure must have
/// been measured, and not be an end of a range, which stands in parentheses.
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

#[test]
fn examples_import_what_programs_depend_on() {
    let sources = files(&[".rs"]).into_iter().filter(|file| {
        ["crates/core/src/", "crates/etcd/src/"].iter().any(|start| file.starts_with(start))
    });
    let text = |line: &str| Some(line.trim_start().strip_prefix("///")?.to_owned());
    let mut seen = 0;
    for file in sources {
        let comments: String =
            read(&file).lines().map(|line| text(line).unwrap_or_default() + "\n").collect();
        let prose: Vec<_> = prose(&comments).collect();
        for line in comments.lines().filter(|line| !prose.contains(line)) {
            seen += usize::from(line.contains("navlock::"));
            for inner in ["navlock_core::", "navlock_etcd::"] {
                assert!(!line.contains(inner), "{file}: {line}; import it from `navlock`");
            }
        }
    }
    assert!(seen > 100, "the examples are found");
}
