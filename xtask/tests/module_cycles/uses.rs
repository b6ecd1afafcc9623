//! The uses between the files of a crate.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{
    Attribute, ItemUse, Macro, Visibility,
    visit::{self, Visit},
};

use crate::modules::{Modules, is_test, leaves};

/// For each file the files that it uses, with the names that it uses of them.
pub(crate) type Uses = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

impl Modules<'_> {
    /// For each file the files that it uses, with the names that it uses of them.
    pub(crate) fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (at, module) in self.all.iter().enumerate() {
            uses.entry(module.file.clone()).or_default();
            let mut found = UsesOf { modules: self, at, uses: &mut uses };
            module.items.iter().for_each(|item| found.visit_item(item));
        }
        uses
    }
}

/// Collects what a module uses of other files.
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

    /// The arguments of a macro are tokens. A path among them counts. A single word counts only if it can be
    /// nothing local: a type, a constant, or something that is called.
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
    /// A module in braces is visited on its own.
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
