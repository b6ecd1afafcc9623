//! The question whether a member is there.

use navlock_etcd_client::{Client, RangeRequest, ResponseHeader, prefix_end};
use tokio::time;

use crate::{
    call_failure::Failure, calls::failures, credentials::Credentials, keys::BucketKeys,
    options::EtcdOptions,
};

/// Connects to an endpoint, and asks it something, because only an answer shows that a member is there.
/// If `cluster` is known, the member has to belong to this cluster.
pub(super) async fn ask(
    options: &EtcdOptions,
    endpoint: &str,
    is_one_of_several: bool,
    cluster: Option<u64>,
) -> Result<(Client, Credentials), Failure> {
    let credentials = options.credentials_now().map_err(|why| Failure::Unknown(why.into()))?;
    let asked = async {
        let with = options.client(&credentials);
        let client = Client::connect([endpoint], Some(with)).await?;
        let there = first_key(options, client.clone()).await?.cluster_id;
        Ok::<_, navlock_etcd_client::Error>((client, there))
    };
    // A single endpoint may take all the time that there is for connecting.
    let timeout =
        if is_one_of_several { options.keeper.times.call() } else { options.keeper.times.timeout };
    match time::timeout(timeout, asked).await {
        Ok(asked) => match asked.map_err(failures::of)? {
            (_, there) if cluster.is_some_and(|cluster| cluster != there) => {
                Err(Failure::unknown("there is another etcd"))
            }
            (client, _) => Ok((client, credentials)),
        },
        Err(_) => Err(Failure::timed_out(timeout)),
    }
}

/// Asks a member for the first key, if there is any. The member answers only when it has seen everything
/// that had happened before.
pub(super) async fn first_key(
    options: &EtcdOptions,
    mut client: Client,
) -> Result<ResponseHeader, navlock_etcd_client::Error> {
    let prefix = BucketKeys::new(&options.keeper.namespace, "").all();
    let all = RangeRequest::range(&*prefix, prefix_end(&prefix));
    let answer = client.get(RangeRequest { keys_only: true, limit: 1, ..all }).await?;
    Ok(answer.header.unwrap_or_default())
}
