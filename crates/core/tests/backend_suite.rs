//! The backend suite on the in-memory backend: as the handles know it, by type, and as any other
//! reach, through the trait object.

use navlock_core::{UserAgent, backend::MemoryReach};

mod by_type {
    use super::*;

    navlock_testkit::backend_suite!(UserAgent::new());
}

mod through_the_seam {
    use super::*;

    navlock_testkit::backend_suite!(UserAgent::with_reach(MemoryReach::default()));
}

mod in_one_shard {
    use super::*;

    navlock_testkit::backend_suite!(UserAgent::with_memory(MemoryReach::default().with_shards(1)));
}
