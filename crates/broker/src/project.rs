//! The project of a folder, which is the bucket of its programs in JavaScript.

use std::{
    collections::HashMap,
    env, fs, io,
    path::{Path, PathBuf},
};

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The project that a folder is in. Programs in JavaScript that name no bucket use the bucket of their project, so a
/// program that uses this bucket meets them.
///
/// The project is the nearest workspace above the folder, or else the nearest package; if there is neither, it is the
/// folder itself. The npm package has the same rules, and both pass the same table of cases.
///
/// ```
/// use navlock::Project;
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// std::fs::write(folder.join("package.json"), r#"{ "name": "shop" }"#)?;
/// std::fs::create_dir(folder.join("src"))?;
/// let project = Project::of(folder.join("src"))?;
/// assert_eq!(project.bucket(), folder.canonicalize()?.to_string_lossy());
/// assert_eq!(project.because(), "a project (package.json: shop)");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    bucket: String,
    because: String,
}

impl Project {
    /// The project of this folder.
    ///
    /// # Errors
    ///
    /// If there is no such folder.
    pub fn of(folder: impl AsRef<Path>) -> io::Result<Self> {
        let folder = without_prefix(fs::canonicalize(folder)?);
        if !folder.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let (at, because) =
            find(&folder).unwrap_or_else(|| (&folder, "a folder that is in no project".to_owned()));
        Ok(Self { bucket: at.to_string_lossy().into_owned(), because })
    }

    /// The project of the working folder.
    ///
    /// # Errors
    ///
    /// If the working folder cannot be used, as when it was removed.
    pub fn here() -> io::Result<Self> {
        Self::of(env::current_dir()?)
    }

    /// The name of the bucket: the path of the project, without links.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// What makes the folder with this path a project, for people.
    pub fn because(&self) -> &str {
        &self.because
    }
}

/// The nearest workspace, or else the nearest package. Everything below the root of a workspace belongs to it, listed as
/// a member or not, because tools differ in what they take for a member. A bucket that is shared needlessly makes a
/// program wait at worst. A bucket that is not shared lets two programs hold one lock.
fn find(folder: &Path) -> Option<(&Path, String)> {
    let (mut named, mut unnamed) = (None, None);
    for at in folder.ancestors() {
        let Manifests { workspace, project, has_dependencies } = Manifests::read(at);
        if let Some(workspace) = workspace {
            return Some((at, format!("a workspace ({workspace})")));
        }
        if let Some(project) = project {
            named.get_or_insert_with(|| (at, format!("a project ({project})")));
        }
        if has_dependencies {
            let because = "a project (package.json, without a name)";
            unnamed.get_or_insert_with(|| (at, because.to_owned()));
        }
    }
    named.or(unnamed)
}

/// What the manifests of one folder say.
#[derive(Default)]
struct Manifests {
    /// What makes the folder a workspace.
    workspace: Option<&'static str>,
    /// What makes the folder a project.
    project: Option<String>,
    /// Whether there is a package.json with dependencies and without a name.
    has_dependencies: bool,
}

impl Manifests {
    fn read(folder: &Path) -> Self {
        let mut found = Self::default();
        if folder.join("pnpm-workspace.yaml").is_file() {
            found.workspace = Some("pnpm-workspace.yaml");
        }
        let text = read(&folder.join("package.json"));
        if let Some(manifest) = text.as_deref().and_then(object) {
            if lists(&manifest, "workspaces", "packages") {
                found.workspace.get_or_insert("workspaces in package.json");
            }
            // A package.json without a name may only say of which kind the files beside it are, as
            // dist/cjs/package.json does. But `npm install` in an empty folder writes no name either.
            match manifest.get("name").and_then(|name| serde_json::from_str(name.get()).ok()) {
                Some::<String>(name) if !name.is_empty() => {
                    found.project = Some(format!("package.json: {name}"));
                }
                _ => {
                    let dependencies = manifest.get("dependencies");
                    found.has_dependencies =
                        dependencies.is_some_and(|value| value.get().starts_with(['{', '[']));
                }
            }
        }
        for (file, workspace) in
            [("deno.json", "workspace in deno.json"), ("deno.jsonc", "workspace in deno.jsonc")]
        {
            let path = folder.join(file);
            if !path.is_file() {
                continue;
            }
            let text = read(&path);
            let manifest = text.as_deref().and_then(object);
            if manifest.is_some_and(|manifest| lists(&manifest, "workspace", "members")) {
                found.workspace.get_or_insert(workspace);
            }
            // In this file, only published packages have a name.
            found.project.get_or_insert_with(|| file.to_owned());
        }
        found
    }
}

/// Whether this member is a list that is not empty, or an object in which such a list has this name.
fn lists(manifest: &Manifest, member: &str, name: &str) -> bool {
    let is_list = |value: &RawValue| {
        serde_json::from_str::<Vec<IgnoredAny>>(value.get()).is_ok_and(|list| !list.is_empty())
    };
    manifest.get(member).is_some_and(|value| match serde_json::from_str::<Manifest>(value.get()) {
        Ok(members) => members.get(name).is_some_and(|value| is_list(value)),
        Err(_) => is_list(value),
    })
}

/// The text of a manifest. `None` if there is none, or it may not be read.
fn read(file: &Path) -> Option<String> {
    // A pipe of this name would be waited for.
    let text = file.is_file().then(|| fs::read(file))?.ok()?;
    Some(without_surrogates(String::from_utf8_lossy(&text).into_owned()))
}

/// The same text with other characters in place of escaped surrogates, which need no partner in JavaScript.
fn without_surrogates(mut text: String) -> String {
    let escapes = text.match_indices("\\u").map(|(at, _)| at + 2);
    let is_surrogate = |digits: &str| {
        u16::from_str_radix(digits, 16).is_ok_and(|unit| (0xD800..0xE000).contains(&unit))
    };
    let found = escapes.filter(|&at| text.get(at..at + 4).is_some_and(is_surrogate));
    for at in found.collect::<Vec<_>>() {
        text.replace_range(at..at + 4, "fffd");
    }
    text
}

/// The members of an object, whose values are not taken apart: they may be as deep as they like.
type Manifest = HashMap<String, Box<RawValue>>;

/// The object in a manifest, which may have comments, and commas behind what is last.
fn object(text: &str) -> Option<Manifest> {
    serde_json::from_str(&plain(text.trim_start_matches('\u{feff}'))).ok()
}

/// A text in JSON without its comments, and without commas behind what is last.
fn plain(mut text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    while let Some(first) = text.chars().next() {
        let (taken, is_kept) = match first {
            '"' => (string_length(text), true),
            '/' if text.starts_with("//") => (text.find('\n').unwrap_or(text.len()), false),
            // A comment that does not end is none.
            '/' if text.starts_with("/*") => {
                text[2..].find("*/").map_or((1, true), |length| (length + 4, false))
            }
            '}' | ']' => {
                if let Some(rest) =
                    plain.trim_end_matches([' ', '\t', '\n', '\r']).strip_suffix(',')
                {
                    plain.truncate(rest.len());
                }
                (1, true)
            }
            other => (other.len_utf8(), true),
        };
        let (part, rest) = text.split_at(taken);
        plain.push_str(if is_kept { part } else { "" });
        text = rest;
    }
    plain
}

/// The length of the string with which a text begins, in its quotes; that of the text, if the string does not end.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 2)
}

/// The path as other programs spell it: on Windows, a path without links begins with `\\?\`.
fn without_prefix(path: PathBuf) -> PathBuf {
    let Some(rest) = path.to_str().and_then(|path| path.strip_prefix(r"\\?\")) else { return path };
    match rest.strip_prefix(r"UNC\") {
        Some(share) => format!(r"\\{share}").into(),
        None => rest.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The table of cases that the npm package passes as well.
    const CASES: &str = include_str!("../../../npm/navlock/test/projects.json");

    #[derive(serde::Deserialize)]
    struct Case {
        what: String,
        /// The text of each file.
        files: BTreeMap<String, String>,
        /// The project of each folder.
        projects: BTreeMap<String, String>,
    }

    #[test]
    fn the_project_of_a_folder_is_that_of_its_programs_in_javascript() {
        let cases: Vec<Case> = serde_json::from_str(CASES).unwrap();
        assert!(cases.len() > 10, "{}", cases.len());
        for Case { what, files, projects } in cases {
            let root = tempfile::tempdir().unwrap();
            let root = root.path().canonicalize().unwrap();
            for (name, text) in files {
                fs::create_dir_all(root.join(&name).parent().unwrap()).unwrap();
                fs::write(root.join(name), text).unwrap();
            }
            for (folder, project) in projects {
                fs::create_dir_all(root.join(&folder)).unwrap();
                let found = Project::of(root.join(&folder)).unwrap();
                let project = root.join(project).components().collect::<PathBuf>();
                assert_eq!(Path::new(found.bucket()), project, "{what}: {folder}");
            }
        }
    }

    #[test]
    fn a_folder_that_is_not_there_has_no_project() {
        let root = tempfile::tempdir().unwrap();
        let error = Project::of(root.path().join("gone")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        fs::write(root.path().join("file"), "").unwrap();
        let error = Project::of(root.path().join("file")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn a_path_of_windows_is_spelled_as_others_spell_it() {
        let of = |path: &str| without_prefix(path.into());
        assert_eq!(of(r"\\?\C:\shop"), Path::new(r"C:\shop"));
        assert_eq!(of(r"\\?\UNC\host\shop"), Path::new(r"\\host\shop"));
        assert_eq!(of("/shop"), Path::new("/shop"));
    }
}
