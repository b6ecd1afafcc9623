//! The list of clusters, and the cluster that a name is on.

use std::fmt;

use navlock_core::{Error, ResourceName};
use sha2::{Digest, Sha256};

use super::list::{List, MAX_NAME, is_name};
use crate::{
    options::EtcdOptions,
    strays::{Evict, evict},
};

/// Several etcds, each with a name, that share the names of locks.
///
/// ```
/// # use navlock::ResourceName;
/// # use navlock::{EtcdClusters, EtcdOptions};
/// let clusters = EtcdClusters::new()
///     .cluster("east", EtcdOptions::new(["10.0.0.1:2379", "10.0.0.2:2379"]))
///     .cluster("west", EtcdOptions::new(["10.1.0.1:2379"]));
/// let name = ResourceName::try_from("db")?;
/// assert_eq!(clusters.cluster_of("my-app", &name), Some("east"));
/// # Ok::<(), navlock::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct EtcdClusters {
    /// The clusters, in the order of their names.
    pub(super) clusters: Vec<Cluster>,
}

/// One of the clusters.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) options: EtcdOptions,
    /// Whether the cluster is retired: no name is on it.
    pub(super) is_retired: bool,
}

impl EtcdClusters {
    /// A list without any cluster.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a cluster. Its name is 1 to 64 letters, digits, `.`, `_` and `-`, and does not begin
    /// with a `-`. The name must never change, because it decides which names of locks are on the
    /// cluster.
    #[must_use]
    pub fn cluster(self, name: impl Into<String>, options: EtcdOptions) -> Self {
        self.with(Cluster { name: name.into(), options, is_retired: false })
    }

    /// Adds a cluster that no name is on any more, and that is about to be removed. It has to be
    /// listed as long as a machine may start that does not know this. Otherwise locks that such a
    /// machine holds there would not be seen.
    #[must_use]
    pub fn retired(self, name: impl Into<String>, options: EtcdOptions) -> Self {
        self.with(Cluster { name: name.into(), options, is_retired: true })
    }

    fn with(mut self, cluster: Cluster) -> Self {
        self.clusters.push(cluster);
        self.clusters.sort_by(|one, other| one.name.cmp(&other.name));
        self
    }

    /// The cluster that a lock of this name is on; `None` if there is none.
    pub fn cluster_of(&self, bucket: &str, name: &ResourceName) -> Option<&str> {
        let active = self.clusters.iter().filter(|cluster| !cluster.is_retired);
        let all: Vec<_> = active.map(|cluster| &*cluster.name).collect();
        place(&all, bucket, name.as_bytes()).map(|nth| all[nth])
    }

    /// The clusters with their names, in the order of the names, and whether each is retired.
    pub fn each(&self) -> impl Iterator<Item = (&str, &EtcdOptions, bool)> {
        let each = self.clusters.iter();
        each.map(|cluster| (&*cluster.name, &cluster.options, cluster.is_retired))
    }

    /// Does what [`evict`](crate::evict()) does, and removes locks, requests or stray keys: for a
    /// client, on the cluster that the name is on; for a key, on any cluster. Blocks the thread,
    /// which must not be one of a tokio runtime.
    ///
    /// # Errors
    ///
    /// The errors of [`evict`](crate::evict()).
    pub fn evict(&self, what: &Evict<'_>) -> Result<Vec<Vec<u8>>, Error> {
        self.check()?;
        let on = match *what {
            Evict::Client { bucket, name, .. } => self.cluster_of(bucket, name),
            Evict::Key(_) => None,
        };
        let (mut removed, mut failed) = (Vec::new(), None);
        for (name, options, _) in self.each().filter(|(name, ..)| on.is_none_or(|on| on == *name)) {
            match evict(options, what) {
                Ok(keys) => removed.extend(keys),
                Err(error) => failed = failed.or(Some(of(name, error))),
            }
        }
        match failed {
            Some(error) if removed.is_empty() => Err(error),
            _ => Ok(removed),
        }
    }

    pub(super) fn list(&self) -> List {
        let each = self.clusters.iter();
        List(each.map(|cluster| (cluster.name.clone(), cluster.is_retired)).collect())
    }

    /// # Errors
    ///
    /// [`Error::Refused`] if no cluster has names, if two clusters have one name, or if a name or
    /// options cannot be used.
    pub(super) fn check(&self) -> Result<(), Error> {
        let refused = |why: String| Err(Error::refused(why));
        if self.clusters.iter().all(|cluster| cluster.is_retired) {
            return refused("no etcd cluster was given that is not retired".to_owned());
        }
        for cluster in &self.clusters {
            if !is_name(&cluster.name) {
                return refused(format!(
                    "{:?} is no name for an etcd cluster: give it 1 to {MAX_NAME} letters, digits, '.', \
                     '_' and '-', and no '-' at its beginning",
                    cluster.name
                ));
            }
            cluster.options.check().map_err(|error| of(&cluster.name, error))?;
        }
        match self.clusters.windows(2).find(|two| two[0].name == two[1].name) {
            Some(two) => refused(format!(
                "two etcd clusters have the name {}; give each its own",
                two[0].name
            )),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for EtcdClusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.clusters).finish()
    }
}

/// The cluster that a name is on: the one whose name, together with the lock's name, has the
/// largest hash.
///
/// The format of the bytes that are hashed must never change, like the format of the keys in etcd.
pub(super) fn place(clusters: &[&str], bucket: &str, name: &[u8]) -> Option<usize> {
    let hash = |cluster: &str| {
        let length = |part: &str| (part.len() as u64).to_be_bytes();
        let mut hash = Sha256::new();
        for part in [cluster, bucket] {
            hash.update(length(part));
            hash.update(part);
        }
        <[u8; 32]>::from(hash.chain_update(name).finalize())
    };
    (0..clusters.len()).max_by_key(|&nth| hash(clusters[nth]))
}

/// An error of one of the clusters.
pub(super) fn of(cluster: &str, error: Error) -> Error {
    match error {
        Error::Unreachable(why) => {
            let message = format!("etcd cluster {cluster}: {why}");
            why.with_message(message).into()
        }
        Error::Refused(why) => {
            let message = format!("etcd cluster {cluster}: {why}");
            why.with_message(message).into()
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> impl Iterator<Item = String> {
        (0..3000).map(|nth| format!("name {nth}"))
    }

    #[test]
    fn a_name_is_on_one_cluster_and_each_has_its_share() {
        let all = ["a", "b", "c"];
        let mut counts = [0; 3];
        for name in names() {
            counts[place(&all, "bucket", name.as_bytes()).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        assert_eq!(place(&[], "bucket", b"db"), None);
    }

    #[test]
    fn a_further_cluster_takes_its_share_and_moves_nothing_else() {
        let (before, after) = (["a", "b"], ["a", "b", "c"]);
        let mut moved = 0;
        for name in names() {
            let was = before[place(&before, "bucket", name.as_bytes()).unwrap()];
            let is = after[place(&after, "bucket", name.as_bytes()).unwrap()];
            assert!(is == was || is == "c", "{name} went from {was} to {is}");
            moved += usize::from(is != was);
        }
        assert!((900..1100).contains(&moved), "{moved}");
    }

    #[test]
    fn where_names_are_is_the_same_for_all_releases() {
        let all = ["a", "b", "c"];
        let of = |bucket, name: &str| all[place(&all, bucket, name.as_bytes()).unwrap()];
        let found = [("default", "db"), ("default", ""), ("", "db"), ("app", "ö"), ("ap", "pö")];
        assert_eq!(found.map(|(bucket, name)| of(bucket, name)), EXPECTED);
    }

    /// The result of `printf '\0\0\0\0\0\0\0\1a\0\0\0\0\0\0\0\7defaultdb' | sha256sum` and so on.
    const EXPECTED: [&str; 5] = ["c", "b", "b", "b", "c"];

    #[test]
    fn a_wrong_list_of_clusters_is_refused_with_its_fault() {
        let options = || EtcdOptions::new(["127.0.0.1:1"]);
        let said = |clusters: EtcdClusters| clusters.check().unwrap_err().to_string();
        assert!(said(EtcdClusters::new()).contains("no etcd cluster"));
        assert!(said(EtcdClusters::new().retired("a", options())).contains("not retired"));
        let two = EtcdClusters::new().cluster("a", options()).cluster("a", options());
        assert!(said(two).contains("two etcd clusters have the name a"));
        for name in ["", "-a", "a b", "a,b", &"a".repeat(65)] {
            let one = EtcdClusters::new().cluster(name, options());
            assert!(said(one).contains("is no name"), "{name}");
        }
        let empty = EtcdClusters::new().cluster("a", EtcdOptions::new([""; 0]));
        assert!(said(empty).starts_with("etcd cluster a: "));
    }
}
