//! The files of a crate form no circle: what two files need of each other stands in a third one.
//!
//! A file *uses* another one where its code names something that the other one defines, by whatever path: a
//! name is followed through imports and re-exports to the file of the definition. To declare a module or
//! to re-export from it is no use of it. Tests do not count, and neither do calls of methods, whose paths name
//! nothing: the methods of one type may stand in several files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{
    Attribute, Item, ItemUse, Macro, UseTree, Visibility,
    visit::{self, Visit},
};

/// The crates that still have circles, with the number of files that stand in one. A number that is not the
/// real one fails the test, so it can only be made smaller together with the circles.
const STILL_IN_CIRCLES: [(&str, usize); 1] = [("navlock-benches", 13)];

/// What a name means in a module.
enum Meaning {
    /// Something that the module defines.
    Item,
    /// A module below it, by its number.
    Module(usize),
    /// What an import leads to.
    Import(Vec<String>),
}

/// One module: a file, or a part of one in braces.
#[derive(Default)]
struct Module {
    parent: Option<usize>,
    file: PathBuf,
    names: BTreeMap<String, Vec<Meaning>>,
    /// The modules of which it imports everything.
    globs: Vec<Vec<String>>,
    macros: BTreeSet<String>,
    items: Vec<Item>,
}

/// The modules that one target of a crate consists of. The first one is its root.
struct Modules<'a> {
    read: &'a dyn Fn(&Path) -> Option<String>,
    all: Vec<Module>,
}

impl<'a> Modules<'a> {
    fn of(root: &Path, read: &'a dyn Fn(&Path) -> Option<String>) -> Self {
        let mut modules = Self { read, all: Vec::new() };
        let folder = root.parent().expect("a source is in a folder");
        modules.add_file(None, root, folder).expect("the root of a target can be read");
        modules
    }

    /// Adds the module of a file, whose modules have their files in `folder`.
    fn add_file(&mut self, parent: Option<usize>, file: &Path, folder: &Path) -> Option<usize> {
        let text = (self.read)(file)?;
        let parsed = syn::parse_file(&text);
        let parsed = parsed.unwrap_or_else(|e| panic!("{} cannot be read: {e}", file.display()));
        Some(self.add(parent, file, folder, parsed.items))
    }

    fn add(
        &mut self,
        parent: Option<usize>,
        file: &Path,
        folder: &Path,
        items: Vec<Item>,
    ) -> usize {
        let this = self.all.len();
        self.all.push(Module { parent, file: file.to_owned(), ..Module::default() });
        let mut items: Vec<_> =
            items.into_iter().filter(|item| !is_test(attributes(item))).collect();
        for item in &mut items {
            if let Item::Mod(module) = item {
                let name = module.ident.to_string();
                let mut found = Vec::new();
                if let Some((_, items)) = module.content.take() {
                    found.push(self.add(Some(this), file, &folder.join(&name), items));
                } else {
                    let beside = folder.join(format!("{name}.rs"));
                    found.extend(self.add_file(Some(this), &beside, &folder.join(&name)));
                    let within = folder.join(&name).join("mod.rs");
                    found.extend(self.add_file(Some(this), &within, &folder.join(&name)));
                    for elsewhere in module.attrs.iter().filter_map(|is| path_of(is, folder)) {
                        let folder = elsewhere.parent().expect("it is in a folder");
                        found.extend(self.add_file(Some(this), &elsewhere, folder));
                    }
                    assert!(!found.is_empty(), "{}: no file for module {name}", file.display());
                }
                let names = self.all[this].names.entry(name).or_default();
                names.extend(found.into_iter().map(Meaning::Module));
            }
        }
        let mut names = Names(&mut self.all[this]);
        for item in &items {
            names.visit_item(item);
        }
        self.all[this].items = items;
        this
    }

    /// The modules that define what a path means in the module `at`, and whether the path leads to something in
    /// the module, not to the module itself. None of them, if it is of another crate.
    fn resolve(&self, at: usize, path: &[String], depth: usize) -> BTreeSet<(usize, bool)> {
        let nothing = BTreeSet::new();
        // Imports that lead to each other lead out of the crate: `use slab;`.
        if depth > 16 {
            return nothing;
        }
        let Some((first, rest)) = path.split_first() else { return BTreeSet::from([(at, false)]) };
        match &**first {
            "crate" => return self.resolve(0, rest, depth + 1),
            "self" => return self.resolve(at, rest, depth + 1),
            "super" => {
                let above = self.all[at].parent;
                return above.map_or(nothing, |above| self.resolve(above, rest, depth + 1));
            }
            _ => {}
        }
        let module = &self.all[at];
        let Some(meanings) = module.names.get(first) else {
            let globs = module.globs.iter().filter(|glob| glob.first() != Some(first));
            let within = globs.flat_map(|glob| self.resolve(at, glob, depth + 1));
            let within = within.filter(|(_, is_item)| !is_item);
            let found = within.flat_map(|(within, _)| self.resolve(within, path, depth + 1));
            return found.collect();
        };
        let found = meanings.iter().flat_map(|meaning| match meaning {
            Meaning::Item => BTreeSet::from([(at, true)]),
            Meaning::Module(below) => self.resolve(*below, rest, depth + 1),
            Meaning::Import(import) if import[0] == *first && import.len() == 1 => BTreeSet::new(),
            Meaning::Import(import) => {
                let led = self.resolve(at, import, depth + 1).into_iter();
                let led = led.flat_map(|(to, is_item)| {
                    if is_item {
                        BTreeSet::from([(to, true)])
                    } else {
                        self.resolve(to, rest, depth + 1)
                    }
                });
                led.collect()
            }
        });
        found.collect()
    }

    /// Which file uses which, and by what names.
    fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (at, module) in self.all.iter().enumerate() {
            uses.entry(module.file.clone()).or_default();
            let mut found = UsesOf { modules: self, at, uses: &mut uses };
            module.items.iter().for_each(|item| found.visit_item(item));
        }
        uses
    }
}

/// Which file uses which, and by what names.
type Uses = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether an item is there in tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Ok(list) = attribute.meta.require_list() else { return false };
        let condition = list.tokens.to_string().replace(' ', "");
        let is_test = condition == "test" || condition.starts_with("all(test,");
        attribute.path().is_ident("cfg") && is_test
    })
}

/// The file that `#[path]` names, be it under a condition.
fn path_of(attribute: &Attribute, folder: &Path) -> Option<PathBuf> {
    let text = match &attribute.meta {
        syn::Meta::NameValue(value) if value.path.is_ident("path") => {
            quote_of(&value.value)?.clone()
        }
        syn::Meta::List(list) if list.path.is_ident("cfg_attr") => {
            let tokens = list.tokens.to_string();
            let (_, path) = tokens.split_once("path = \"")?;
            path.split_once('"')?.0.to_owned()
        }
        _ => return None,
    };
    Some(folder.join(text))
}

fn quote_of(value: &syn::Expr) -> Option<String> {
    match value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// Takes the names that a module defines or imports, and those that its functions import.
struct Names<'a>(&'a mut Module);

impl Names<'_> {
    fn add(&mut self, name: &syn::Ident, meaning: Meaning) {
        self.0.names.entry(name.to_string()).or_default().push(meaning);
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Const(item) => self.add(&item.ident, Meaning::Item),
            Item::Enum(item) => self.add(&item.ident, Meaning::Item),
            Item::Fn(item) => self.add(&item.sig.ident, Meaning::Item),
            Item::Static(item) => self.add(&item.ident, Meaning::Item),
            Item::Struct(item) => self.add(&item.ident, Meaning::Item),
            Item::Trait(item) => self.add(&item.ident, Meaning::Item),
            Item::Type(item) => self.add(&item.ident, Meaning::Item),
            Item::Union(item) => self.add(&item.ident, Meaning::Item),
            Item::Macro(item) => {
                self.0.macros.extend(item.ident.as_ref().map(ToString::to_string));
            }
            _ => {}
        }
        // What stands within functions and methods are imports alone.
        Imports(self.0).visit_item(item);
    }
}

struct Imports<'a>(&'a mut Module);

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            for (name, path) in leaves(&item.tree) {
                match name {
                    Some(name) => {
                        self.0.names.entry(name).or_default().push(Meaning::Import(path));
                    }
                    None => self.0.globs.push(path),
                }
            }
        }
    }
}

/// Each path that an import names, with the name it gets, if it is not everything of a module.
fn leaves(tree: &UseTree) -> Vec<(Option<String>, Vec<String>)> {
    fn walk(tree: &UseTree, before: &[String], found: &mut Vec<(Option<String>, Vec<String>)>) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            UseTree::Path(path) => walk(&path.tree, &with(&path.ident), found),
            UseTree::Name(name) if name.ident == "self" => {
                found.push((before.last().cloned(), before.to_vec()));
            }
            UseTree::Name(name) => found.push((Some(name.ident.to_string()), with(&name.ident))),
            UseTree::Rename(name) if name.ident == "self" => {
                found.push((Some(name.rename.to_string()), before.to_vec()));
            }
            UseTree::Rename(name) => {
                found.push((Some(name.rename.to_string()), with(&name.ident)));
            }
            UseTree::Glob(_) => found.push((None, before.to_vec())),
            UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, before, found)),
        }
    }
    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

/// Takes what a module uses of other files.
struct UsesOf<'a> {
    modules: &'a Modules<'a>,
    at: usize,
    uses: &'a mut Uses,
}

impl UsesOf<'_> {
    fn note(&mut self, path: &[String]) {
        let this = &self.modules.all[self.at].file;
        for (to, is_item) in self.modules.resolve(self.at, path, 0) {
            let file = &self.modules.all[to].file;
            if is_item && file != this {
                let uses = self.uses.entry(this.clone()).or_default();
                uses.entry(file.clone()).or_default().insert(path.join("::"));
            }
        }
    }

    /// A macro that a module above defines before it declares this one.
    fn note_macro(&mut self, name: &str) {
        let all = &self.modules.all;
        let mut above = Some(self.at);
        while let Some(at) = above {
            if all[at].macros.contains(name) {
                if all[at].file != all[self.at].file {
                    let uses = self.uses.entry(all[self.at].file.clone()).or_default();
                    uses.entry(all[at].file.clone()).or_default().insert(format!("{name}!"));
                }
                return;
            }
            above = all[at].parent;
        }
    }

    /// What a macro is given are tokens. A path in it counts; a single word only if it can be nothing
    /// local: a type, a constant, or something that is called.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let is = |at: usize, wanted: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted);
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.note_tokens(group.stream()),
                TokenTree::Ident(ident) if at == 0 || !is(at - 1, '.') => {
                    let mut path = vec![ident.to_string()];
                    while let Some(TokenTree::Ident(next)) = tokens.get(at + 3) {
                        if !is(at + 1, ':') || !is(at + 2, ':') {
                            break;
                        }
                        path.push(next.to_string());
                        at += 3;
                    }
                    let is_called = matches!(tokens.get(at + 1), Some(TokenTree::Group(group))
                        if group.delimiter() == Delimiter::Parenthesis);
                    if path.len() > 1 || is_called || path[0].starts_with(char::is_uppercase) {
                        self.note(&path);
                    }
                    if is(at + 1, '!') {
                        self.note_macro(path.last().expect("it has a word"));
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for UsesOf<'_> {
    /// Modules in braces have their own turn.
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Const(item) => &*item.attrs,
            syn::ImplItem::Fn(item) => &*item.attrs,
            syn::ImplItem::Type(item) => &*item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_import = matches!(item.vis, Visibility::Inherited);
        if is_import && item.leading_colon.is_none() {
            for (_, path) in leaves(&item.tree) {
                self.note(&path);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let path: Vec<_> =
                path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.note(&path);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invoked: &'ast Macro) {
        self.visit_path(&invoked.path);
        if let Some(name) = invoked.path.get_ident() {
            self.note_macro(&name.to_string());
        }
        self.note_tokens(invoked.tokens.clone());
    }
}

/// The files that one file reaches by what it uses, and what those use.
fn reached<'a>(uses: &'a Uses, from: &Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Path> = uses[from].keys().map(PathBuf::as_path).collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(uses[file].keys().map(PathBuf::as_path));
        }
    }
    reached
}

/// The files that stand in circles: in one set those that reach each other.
fn circles(uses: &Uses) -> BTreeSet<BTreeSet<&Path>> {
    let reached: BTreeMap<&Path, _> =
        uses.keys().map(|file| (&**file, reached(uses, file))).collect();
    let in_circles = reached.iter().filter(|(file, reached)| reached.contains(*file));
    let circles = in_circles.map(|(file, from_here)| {
        from_here.iter().copied().filter(|other| reached[other].contains(file)).collect()
    });
    circles.collect()
}

/// The circles for people: each use of one file by another one of the same circle.
fn shown(uses: &Uses, circles: &BTreeSet<BTreeSet<&Path>>) -> String {
    let mut text = String::new();
    for circle in circles {
        writeln!(text, "  circle of {} files:", circle.len()).expect("a string takes it");
        for file in circle {
            for (used, what) in uses[*file].iter().filter(|(used, _)| circle.contains(&***used)) {
                let what: Vec<_> = what.iter().map(String::as_str).collect();
                let (from, to, what) = (file.display(), used.display(), what.join(", "));
                writeln!(text, "    {from} uses {to}: {what}").expect("a string takes it");
            }
        }
    }
    text
}

/// Each crate with the roots of its libraries and programs.
fn crates() -> Vec<(String, Vec<PathBuf>)> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo can be run");
    let metadata: serde_json::Value =
        serde_json::from_slice(&metadata.stdout).expect("cargo metadata is JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("it is text").to_owned();
    let packages = metadata["packages"].as_array().expect("there are packages");
    let is_code = |target: &&serde_json::Value| {
        let kinds = target["kind"].as_array().expect("a list");
        kinds.iter().any(|kind| ["lib", "bin", "cdylib", "proc-macro"].iter().any(|is| kind == is))
    };
    let crates = packages.iter().map(|package| {
        let targets = package["targets"].as_array().expect("a list").iter().filter(is_code);
        let roots = targets.map(|target| PathBuf::from(text(&target["src_path"])));
        (text(&package["name"]), roots.collect())
    });
    crates.collect()
}

#[test]
fn the_files_of_a_crate_form_no_circle() {
    let still: BTreeMap<&str, usize> = STILL_IN_CIRCLES.into_iter().collect();
    let (mut seen, mut wrong, mut names) = (0, String::new(), BTreeSet::new());
    for (name, roots) in crates() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize();
        let root = root.expect("the workspace is there");
        let (mut count, mut found) = (0, String::new());
        for target in roots {
            let target = target.strip_prefix(&root).expect("it is in the workspace");
            let read = |path: &Path| fs::read_to_string(root.join(path)).ok();
            let uses = Modules::of(target, &read).uses();
            let circles = circles(&uses);
            seen += uses.len();
            count += circles.iter().map(BTreeSet::len).sum::<usize>();
            found += &shown(&uses, &circles);
        }
        let expected = still.get(&*name).copied().unwrap_or(0);
        if count != expected {
            let line = format!("{name}: {count} files are in circles, not {expected}\n{found}");
            wrong += &line;
        }
        names.insert(name);
    }
    assert!(seen > 400, "{seen} files are not all there are");
    assert!(still.keys().all(|name| names.contains(*name)), "a crate of the list is not there");
    assert!(still.values().all(|count| *count > 0), "a crate without circles needs no line");
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The circles of a crate with these files, each as the names of its files.
fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let files: BTreeMap<&Path, &str> =
        files.iter().map(|(path, text)| (Path::new(path), *text)).collect();
    let read = |path: &Path| files.get(path).map(|text| (*text).to_owned());
    let uses = Modules::of(Path::new("src/lib.rs"), &read).uses();
    let shown = |path: &&Path| path.display().to_string();
    circles(&uses).iter().map(|circle| circle.iter().map(shown).collect()).collect()
}

#[test]
fn a_parent_that_declares_and_reexports_is_in_no_circle() {
    let parent = "mod child; pub use child::Child; pub struct Parent;";
    let child = "use crate::Parent; pub struct Child(Parent);";
    assert!(circles_of(&[("src/lib.rs", parent), ("src/child.rs", child)]).is_empty());
}

#[test]
fn a_parent_that_uses_what_its_child_makes_of_its_own_is_in_a_circle() {
    let parent = "mod child; pub use child::Child; pub struct Parent; fn f(_: Child) {}";
    for child in [
        "use crate::Parent; pub struct Child(Parent);",
        "use super::*; pub struct Child(Parent);",
        "pub struct Child; fn f() { let _ = vec![(1, super::Parent)]; }",
        "pub struct Child; fn f() { use super::Parent as Other; let _ = Other; }",
    ] {
        let circles = circles_of(&[("src/lib.rs", parent), ("src/child.rs", child)]);
        assert_eq!(circles, [["src/child.rs", "src/lib.rs"]], "{child}");
    }
}

#[test]
fn a_name_is_followed_through_reexports_to_the_file_that_defines_it() {
    let files = [
        ("src/lib.rs", "mod a; mod b; pub(crate) use b::deep::Deep;"),
        ("src/a.rs", "pub struct A; fn f() { crate::Deep::new() }"),
        ("src/b/mod.rs", "pub(crate) mod deep; pub struct B;"),
        ("src/b/deep.rs", "use crate::{a, b}; pub struct Deep(a::A, b::B);"),
    ];
    assert_eq!(circles_of(&files), [["src/a.rs", "src/b/deep.rs"]]);
}

#[test]
fn circles_of_tests_and_names_of_other_crates_do_not_count() {
    let files = [
        ("src/lib.rs", "mod a; use slab; use a::A; fn f(_: A) { slab::new() } pub struct Slab;"),
        ("src/a.rs", "pub struct A(slab::Slab); #[cfg(test)] mod tests { use crate::Slab; }"),
    ];
    assert!(circles_of(&files).is_empty());
}
