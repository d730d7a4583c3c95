//! What tests of the scripts know of the commands in them.

/// The commands of scripts that change nothing.
pub(crate) const READS: &[&str] = &[
    "EXISTS",
    "GET",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HSTRLEN",
    "HVALS",
    "LINDEX",
    "LLEN",
    "LRANGE",
    "TIME",
    "XLEN",
    "XPENDING",
    "XRANGE",
    "ZCARD",
    "ZCOUNT",
    "ZRANGE",
    "ZRANGEBYLEX",
    "ZRANGEBYSCORE",
    "ZSCORE",
];
