//! Locks that all machines share which use one PostgreSQL.

pub use navlock_postgres::{
    PostgresOptions, PostgresReach, init as init_postgres, postgres,
    remove as remove_from_postgres, schema as postgres_schema,
};

#[cfg(not(feature = "etcd"))]
pub use navlock_postgres::{CredentialSource, Credentials};
