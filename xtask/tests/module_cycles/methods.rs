//! No type has more than 30 methods: what has more is several things.
//!
//! The methods of all `impl` blocks of a type in its crate count together, in whatever files they stand. What a trait
//! asks for does not count, nor do functions without `self`, nor tests, tools and benchmarks.

use std::collections::BTreeMap;

use syn::{ImplItem, Item, ItemImpl, Type};

use crate::{
    each_target,
    modules::{Modules, is_test},
};

const MOST: usize = 30;

/// Where the product is.
const PRODUCT: [&str; 2] = ["crates/", "npm/navlock/src/"];

/// Types with more methods, and how many they have. A number here may only become smaller.
const EXCEPTIONS: [(&str, &str, usize); 10] = [
    ("crates/broker/src/client/client_table.rs", "ClientTable", 67),
    ("crates/broker/src/client/connection.rs", "Shared", 48),
    ("crates/broker/src/client/owned/slots.rs", "Slots", 33),
    ("crates/broker/src/client_files.rs", "ClientFiles", 38),
    ("crates/broker/src/daemon/client_record.rs", "ClientRecord", 74),
    ("crates/broker/src/daemon/requests.rs", "Requests", 49),
    ("crates/broker/src/daemon/state.rs", "Daemon", 80),
    ("crates/engine/src/manager.rs", "LockManager", 49),
    ("crates/machines/src/keeper.rs", "Keeper", 144),
    ("crates/machines/src/table.rs", "Table", 68),
];

/// The methods of each type that a target defines, by the file and the name of the type.
fn methods(modules: &Modules<'_>) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for (at, module) in modules.all.iter().enumerate() {
        for item in &module.items {
            let Item::Impl(item) = item else { continue };
            let Some(path) = path_of(item) else { continue };
            let count = item.items.iter().filter(|item| is_method(item)).count();
            let mut defined = modules.resolve(at, &path, 0).into_iter();
            let defined = defined.find_map(|(to, is_item)| is_item.then_some(to));
            let file = modules.all[defined.unwrap_or(at)].file.display().to_string();
            let name = path.last().expect("a path has a name").clone();
            *counts.entry((file, name)).or_default() += count;
        }
    }
    counts
}

/// The type of an `impl` block, if the block is of no trait.
fn path_of(item: &ItemImpl) -> Option<Vec<String>> {
    let Type::Path(of) = &*item.self_ty else { return None };
    let path = of.path.segments.iter().map(|segment| segment.ident.to_string());
    item.trait_.is_none().then(|| path.collect())
}

fn is_method(item: &ImplItem) -> bool {
    matches!(item, ImplItem::Fn(item) if item.sig.receiver().is_some() && !is_test(&item.attrs))
}

#[test]
fn a_type_has_no_more_than_30_methods() {
    let mut most = BTreeMap::new();
    each_target(|_, modules| {
        let product = |file: &str| PRODUCT.iter().any(|folder| file.starts_with(folder));
        let many = methods(modules).into_iter().filter(|(_, count)| *count > MOST);
        most.extend(many.filter(|((file, _), _)| product(file)));
    });
    let allowed = EXCEPTIONS.map(|(file, name, count)| ((file.to_owned(), name.to_owned()), count));
    assert_eq!(
        most,
        BTreeMap::from(allowed),
        "a type has more than {MOST} methods: move what is a thing of its own to a type of its own. Or an exception has \
         fewer by now: write the smaller number, or leave it out"
    );
}

#[test]
fn methods_of_one_type_in_several_files_count_together_and_tests_do_not() {
    let files = [
        ("src/lib.rs", "mod a; pub struct T; impl T { fn new() -> T { T } fn a(&self) {} }"),
        (
            "src/a.rs",
            "use crate::T; struct U; impl U { fn a(self) {} } impl Drop for T { fn drop(&mut self) {} }
             impl T { fn b(self) {} #[cfg(test)] fn c(&self) {} } #[cfg(test)] impl T { fn d(&self) {} }",
        ),
    ];
    let read = |path: &std::path::Path| {
        files.iter().find(|(file, _)| path.ends_with(file)).map(|(_, text)| (*text).to_owned())
    };
    let counted = methods(&Modules::of(std::path::Path::new("src/lib.rs"), &read));
    let of = |file: &str, name: &str| counted.get(&(file.to_owned(), name.to_owned())).copied();
    assert_eq!((of("src/lib.rs", "T"), of("src/a.rs", "U")), (Some(2), Some(1)));
}
