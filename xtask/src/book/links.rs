//! The links of the built book. A test of the sources (`xtask/tests/documents.rs`) sees links to files of the
//! repository, and anchors by the rule of GitHub. mdBook makes anchors by a rule of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use crate::run::Result;

/// Fails if a link of a page within this folder leads to a file or an anchor that is not there.
pub(super) fn check(folder: &Path) -> Result {
    let mut pages = BTreeMap::new();
    for file in files(folder)? {
        let text = match file.extension() {
            Some(extension) if extension == "html" => fs::read_to_string(folder.join(&file))
                .map_err(|error| format!("cannot read {}: {error}", file.display()))?,
            _ => String::new(),
        };
        pages.insert(file, text);
    }
    let broken = broken(&pages);
    if broken.is_empty() { Ok(()) } else { Err(format!("in the book:\n{}", broken.join("\n"))) }
}

/// The files below a folder, by their paths in it.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| format!("cannot read {}: {error}", folder.display());
    let (mut files, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(folder.join(&below)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = below.join(entry.file_name());
            let is_folder = entry.file_type().map_err(failed)?.is_dir();
            if is_folder { folders.push(path) } else { files.push(path) }
        }
    }
    Ok(files)
}

/// The links that lead nowhere, each with its page. `pages` has all files of the book, with the text of each
/// page.
fn broken(pages: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let anchors: BTreeMap<&Path, BTreeSet<&str>> =
        pages.iter().map(|(page, text)| (&**page, values(text, "id").collect())).collect();
    let mut broken = Vec::new();
    for (page, text) in pages {
        let links = values(text, "href").chain(values(text, "src"));
        for link in links.filter(|link| is_within(link)) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => normal(&page.with_file_name(file)),
            };
            let leads = anchors.get(&*target);
            if !leads.is_some_and(|anchors| anchor.is_empty() || anchors.contains(anchor)) {
                broken.push(format!("{}: nothing is at {link}", page.display()));
            }
        }
    }
    broken
}

/// Whether a link leads to a page or an anchor of the book. `/` is what mdBook writes for the first page into the
/// page for addresses that are not there.
fn is_within(link: &str) -> bool {
    !link.contains(':') && !matches!(link, "" | "#" | "/")
}

/// The values of all attributes of this name.
fn values<'a>(page: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!(" {attribute}=\"");
    let mut rest = page;
    std::iter::from_fn(move || {
        let (_, value) = rest.split_once(&begin)?;
        let (value, after) = value.split_once('"')?;
        rest = after;
        Some(value)
    })
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_page_or_an_anchor_that_is_not_there_is_found() {
        let page = "<a href=\"b.html#there\"><a href=\"sub/../b.html\"><a href=\"#here\"><p id=\"here\">\
                    <a href=\"https://example.org/c.html\"><a href=\"c.html\"><a href=\"b.html#nowhere\">\
                    <img src=\"c.png\"><a href=\"#there\">";
        let pages = BTreeMap::from([
            (PathBuf::from("a.html"), page.to_owned()),
            (PathBuf::from("b.html"), "<h2 id=\"there\">".to_owned()),
        ]);
        let wrong = ["c.html", "b.html#nowhere", "#there", "c.png"];
        assert_eq!(broken(&pages), wrong.map(|link| format!("a.html: nothing is at {link}")));
    }
}
