//! Puts a section into a file, between its markers.

use std::fs;

/// Replaces what stands between `<!-- marker -->` and `<!-- /marker -->` in a file.
///
/// # Errors
///
/// What is wrong with the file, which is then unchanged.
pub(crate) fn file(path: &str, marker: &str, section: &str) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let spliced = splice(&text, marker, section).ok_or_else(|| {
        format!("{path} has no place for the section: put <!-- {marker} --> and <!-- /{marker} --> where it is to stand")
    })?;
    fs::write(path, spliced).map_err(|error| format!("cannot write {path}: {error}"))
}

fn splice(text: &str, marker: &str, section: &str) -> Option<String> {
    let (open, close) = (format!("<!-- {marker} -->"), format!("<!-- /{marker} -->"));
    let (before, rest) = text.split_once(&open)?;
    let (_, after) = rest.split_once(&close)?;
    Some(format!("{before}{open}\n{}\n{close}{after}", section.trim()))
}

#[cfg(test)]
mod tests {
    use super::splice;

    #[test]
    fn only_what_stands_between_the_markers_is_replaced() {
        let text = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n";
        let spliced = splice(text, "x", "new\n").expect("the markers are there");
        assert_eq!(spliced, "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n");
        assert_eq!(splice(&spliced, "x", "new\n").as_deref(), Some(&*spliced));
    }

    #[test]
    fn a_text_without_both_markers_is_refused() {
        assert_eq!(splice("a <!-- x --> b", "x", "new"), None);
    }
}
