//! The files of this repository, for the tests beside this folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The text of a file, which is given by its path in the repository.
pub(crate) fn read(file: impl AsRef<Path>) -> String {
    let path = root().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The paths, in the repository, of the files with one of these endings, without what is built or
/// installed. They are found without git, because the tests also run where there is no git.
pub(crate) fn files(endings: &[&str]) -> Vec<String> {
    const MADE: [&str; 3] = ["dist", "node_modules", "target"];
    let (mut files, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder can be read") {
            let entry = entry.expect("a folder can be read");
            let name = entry.file_name().into_string().expect("names are UTF-8");
            let path = folder.join(&name);
            if entry.file_type().expect("it is there").is_dir() {
                if !name.starts_with('.') && !MADE.contains(&&*name) {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                files.push(path.to_str().expect("names are UTF-8").to_owned());
            }
        }
    }
    files
}
