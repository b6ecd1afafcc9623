//! The modules of a crate, and what a path means in one of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use syn::{Attribute, Item, ItemUse, UseTree, visit::Visit};

/// What a name means in a module.
pub(crate) enum Meaning {
    /// Something that the module defines.
    Item,
    /// A module below it, by its number.
    Module(usize),
    /// What an import leads to.
    Import(Vec<String>),
}

/// One module: a file, or a part of one in braces.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) parent: Option<usize>,
    pub(crate) file: PathBuf,
    names: BTreeMap<String, Vec<Meaning>>,
    /// The modules of which it imports everything.
    globs: Vec<Vec<String>>,
    pub(crate) macros: BTreeSet<String>,
    pub(crate) items: Vec<Item>,
}

/// The modules that one target of a crate consists of. The first one is its root.
pub(crate) struct Modules<'a> {
    read: &'a dyn Fn(&Path) -> Option<String>,
    pub(crate) all: Vec<Module>,
}

impl<'a> Modules<'a> {
    pub(crate) fn of(root: &Path, read: &'a dyn Fn(&Path) -> Option<String>) -> Self {
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
                    let beside = file.parent().expect("a source is in a folder");
                    for elsewhere in module.attrs.iter().filter_map(|is| path_of(is, beside)) {
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

    /// The modules that define what a path means in the module `at`, and whether the path leads to something
    /// in the module, not to the module itself. There are none if the path leads to another crate.
    pub(crate) fn resolve(
        &self,
        at: usize,
        path: &[String],
        depth: usize,
    ) -> BTreeSet<(usize, bool)> {
        let nothing = BTreeSet::new();
        // Imports that lead to each other, as `use slab;` does, lead out of the crate.
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
}

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

/// Whether an item exists in tests only.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Ok(list) = attribute.meta.require_list() else { return false };
        let condition = list.tokens.to_string().replace(' ', "");
        let is_test = condition == "test" || condition.starts_with("all(test,");
        attribute.path().is_ident("cfg") && is_test
    })
}

/// The file that `#[path]` names, also if the attribute stands under a condition.
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
        // Within functions and methods, only imports are of interest.
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
pub(crate) fn leaves(tree: &UseTree) -> Vec<(Option<String>, Vec<String>)> {
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
