//! What the command line asks for.

use crate::harness::Scale;

/// What the command line asks for.
pub(crate) struct Args {
    pub(crate) family: Family,
    pub(crate) rounds: usize,
    pub(crate) scale: Scale,
    pub(crate) only: Option<String>,
    pub(crate) markdown: Option<String>,
    pub(crate) splice: Option<String>,
}

/// How far the locks are seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    InProcess,
    Broker,
    Looking,
    Etcd,
    EtcdScale,
    Postgres,
    #[cfg(feature = "embedded")]
    Embedded,
}

impl Family {
    /// The name of the markers between which its section stands.
    pub(crate) const fn marker(self) -> &'static str {
        match self {
            Self::InProcess => "bench:in-process",
            Self::Broker => "bench:broker",
            Self::Looking => "bench:looking",
            Self::Etcd => "bench:etcd",
            Self::EtcdScale => "bench:etcd-scale",
            Self::Postgres => "bench:postgres",
            #[cfg(feature = "embedded")]
            Self::Embedded => "bench:embedded",
        }
    }
}

impl Args {
    pub(crate) fn memory(&self) -> bool {
        self.wants("memory")
    }

    pub(crate) fn wants(&self, row: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == row)
    }
}
