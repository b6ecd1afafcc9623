//! What people look for in a store, and remove from it.

use navlock_core::{ClientId, Error, ResourceName};

use crate::{
    call_failure::Failure,
    data::{KeyValue, removal},
    key_store::KeyStore,
    keys::BucketKeys,
    load::Turn,
    strays::{self, Shown, Stray},
    transactions::MOST,
};

/// What to remove by [evict].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evict<'a> {
    /// This key, whether it is a lock, a request or a stray key.
    Key(&'a [u8]),
    /// All locks and requests of this client for one name.
    Client {
        /// The bucket's name.
        bucket: &'a str,
        /// The lock's name.
        name: &'a ResourceName,
        /// The client's id, which queries show.
        client_id: ClientId,
    },
}

/// Looks for keys in the namespace that are no locks and no requests.
///
/// # Errors
///
/// Why the store cannot be read.
pub async fn strays(store: &impl KeyStore, namespace: &str) -> Result<Vec<Stray>, Failure> {
    let listed = store.list(BucketKeys::root(namespace), usize::MAX, 0).await?;
    Ok(listed.found.iter().filter_map(|kv| strays::of_namespace(namespace, kv)).collect())
}

/// Removes locks, requests or stray keys from the store, whoever has them. Returns the keys that it has
/// removed. A key that changes while this runs is left alone.
///
/// # Errors
///
/// [`Failure::Refused`] if there is nothing of that kind, the key is outside of the namespace, or it
/// has just changed; and why the store cannot be read or written to.
pub async fn evict<K: KeyStore>(
    store: &K,
    namespace: &str,
    what: &Evict<'_>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let refused = |why: String| Err(Failure::Refused(Error::refused(why)));
    let root = BucketKeys::root(namespace);
    let (prefix, is_it): (Vec<u8>, IsIt<'_>) = match *what {
        Evict::Key(key) if !key.starts_with(&root) => {
            let (key, root) = (Shown(key), Shown(&root));
            return refused(format!("{key} is none of navlock's keys: those begin with {root}"));
        }
        Evict::Key(key) => (key.to_vec(), Box::new(move |kv| kv.key == key)),
        Evict::Client { bucket, name, client_id } => {
            let keys = BucketKeys::new(namespace, bucket);
            let prefix = keys.of_name(name);
            (
                prefix,
                Box::new(move |kv| {
                    strays::id(&keys, kv).is_some_and(|id| id.client_id == client_id)
                }),
            )
        }
    };
    let listed = store.list(prefix, usize::MAX, 0).await?;
    let found: Vec<_> = listed.found.into_iter().filter(|kv| is_it(kv)).collect();
    if found.is_empty() {
        return refused(match *what {
            Evict::Key(key) => format!("there is no key {} in {}", Shown(key), K::NAME),
            Evict::Client { name, client_id, .. } => {
                format!("{client_id} neither holds {name} nor waits for it")
            }
        });
    }
    for some in found.chunks(MOST) {
        let done = store.transact(removal(some), Turn::Waits);
        if !done.await?.succeeded {
            return refused("it has just changed; look again".to_owned());
        }
    }
    Ok(found.into_iter().map(|kv| kv.key).collect())
}

/// Tells whether a key has to be removed.
type IsIt<'a> = Box<dyn Fn(&KeyValue) -> bool + 'a>;
