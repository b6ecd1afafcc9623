//! Where a bucket lives, and whether it is in use elsewhere.

use navlock::{Look, LookOptions};

use super::{super::Context, Check};

/// Where the bucket lives, and which line of the settings says so.
pub(super) fn home(context: &Context) -> Check {
    Check::ok("bucket", context.home())
}

/// Says of each other broker that the bucket is in use there. Programs that were started before the settings changed
/// do not meet those that were started later.
pub(super) fn elsewhere(context: &Context) -> impl Iterator<Item = Check> {
    let options = LookOptions::default().bucket(&context.bucket);
    context.others.iter().filter_map(move |place| {
        let overview = Look::once(place.clone(), options.clone()).ok()?;
        let uses = overview.queues.values().map(|queue| queue.held.len() + queue.pending.len());
        let uses: usize = uses.sum();
        let socket = place.socket().display();
        let detail = format!(
            "locks and requests of this bucket ({uses}) are with the broker at {socket}, where it does not live"
        );
        let remedy = format!(
            "restart programs from before the settings changed; 'navlock query --all-buckets --socket {socket}' shows them"
        );
        (uses > 0).then(|| Check::warn("bucket", detail).remedy(remedy))
    })
}
