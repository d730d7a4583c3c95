//! By what a client is kept beyond the request that made it: of its settings, which have passwords, only what cannot be turned back.

use std::hash::{BuildHasher as _, Hash, RandomState};

/// The two halves make a mix-up as good as impossible.
pub type Key = (u64, u64);
/// Does not compile for a key that owns a text, such as a password.
const _: fn() = || {
    fn owns_no_text<T: Copy + 'static>() {}
    owns_no_text::<Key>();
};
#[expect(clippy::disallowed_types, reason = "PHP's only thread makes it, and the same thread forks")]
static HASHERS: std::sync::LazyLock<(RandomState, RandomState)> = std::sync::LazyLock::new(Default::default);

pub fn key_of(settings: impl Hash) -> Key {
    (HASHERS.0.hash_one(&settings), HASHERS.1.hash_one(&settings))
}
