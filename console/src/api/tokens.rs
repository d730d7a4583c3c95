//! Who may come in: tokens with roles, and how many wrong ones are looked at.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use duly::{Error, Rate};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use super::rate::Bucket;
use super::reply::Refusal;
use crate::invalid;

/// Names the tokens, so that they are in no list of processes.
const TOKENS: &str = "DULY_API_TOKENS";
const SHORTEST_TOKEN: usize = 24;
const MOST_TOKENS: usize = 1000;
/// An address that has sent so many different wrong tokens within `WRONG_WITHIN` gets no answer to other wrong ones until that is over. One that is
/// sent again and again is no attempt to guess: it is that of a worker that was not told of the new one.
const MOST_WRONG: usize = 10;
const WRONG_WITHIN: Duration = Duration::from_secs(60);
/// How many addresses are remembered; of more, the one that was wrong longest ago is forgotten.
const MOST_ADDRESSES: usize = 1000;

/// What a token permits. Each permits also what those before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// To see queues, jobs with their data, and results.
    View,
    /// To push, cancel and reschedule single jobs, to reserve jobs and to settle them.
    Work,
    /// To requeue failed jobs, to pause and to resume queues.
    Operate,
    /// To delete queues.
    Admin,
}

impl Role {
    const ALL: [Self; 4] = [Self::View, Self::Work, Self::Operate, Self::Admin];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Work => "work",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

pub(super) struct Token {
    secret: String,
    pub(super) role: Role,
    /// Its name in the log: its role, and which of the tokens it is, such as `work-2`.
    pub(super) name: String,
    bucket: Option<Bucket>,
}

impl Token {
    /// Counts a request. Errors: there were too many.
    pub(super) fn take_one(&self) -> Result<(), Refusal> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        bucket.take(Instant::now()).map_err(Refusal::too_many)
    }
}

/// Why a request does not come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    NoToken,
    /// It is no token of this server; `is_new`: and was not sent before.
    Wrong {
        is_new: bool,
    },
    TooOften,
}

impl Closed {
    pub(super) fn is_new(self) -> bool {
        self == Self::Wrong { is_new: true }
    }
}

pub(super) struct Tokens {
    all: Vec<Token>,
    wrong: Mutex<Wrong>,
}

/// The wrong tokens of late, by addresses: what is remembered of a token says nothing of it.
#[derive(Default)]
struct Wrong {
    hasher: RandomState,
    addresses: VecDeque<(IpAddr, VecDeque<(Instant, u64)>)>,
}

impl Wrong {
    /// The tokens that this address sent of late.
    fn of(&mut self, peer: IpAddr, now: Instant) -> &mut VecDeque<(Instant, u64)> {
        self.addresses.retain_mut(|(_, sent)| {
            sent.retain(|(at, _)| now.duration_since(*at) < WRONG_WITHIN);
            !sent.is_empty()
        });
        let known = self.addresses.iter().position(|(address, _)| *address == peer);
        let index = known.unwrap_or_else(|| {
            if self.addresses.len() == MOST_ADDRESSES {
                self.addresses.pop_front();
            }
            self.addresses.push_back((peer, VecDeque::new()));
            self.addresses.len() - 1
        });
        &mut self.addresses[index].1
    }

    fn is_shut(&self, peer: IpAddr, now: Instant) -> bool {
        let of_late = |sent: &VecDeque<(Instant, u64)>| {
            sent.iter().filter(|(at, _)| now.duration_since(*at) < WRONG_WITHIN).count()
        };
        self.addresses.iter().any(|(address, sent)| *address == peer && of_late(sent) >= MOST_WRONG)
    }

    fn note(&mut self, peer: IpAddr, token: &str, now: Instant) -> Closed {
        let token = self.hasher.hash_one(token);
        let sent = self.of(peer, now);
        let is_new = sent.iter().all(|(_, known)| *known != token);
        if is_new {
            sent.push_back((now, token));
        }
        Closed::Wrong { is_new }
    }
}

impl Tokens {
    /// Errors: `InvalidArgument`, which says what to do and shows no token.
    pub(super) fn of_environment(rate: Option<Rate>) -> Result<Self, Error> {
        let text = std::env::var_os(TOKENS).unwrap_or_default();
        let text = text.into_string().map_err(|_| invalid(format!("the tokens in {TOKENS} are no text in UTF-8")))?;
        Self::read(&text, rate)
    }

    fn read(text: &str, rate: Option<Rate>) -> Result<Self, Error> {
        let mut all: Vec<Token> = Vec::new();
        for pair in text.split([',', ' ', '\t', '\r', '\n']).filter(|pair| !pair.is_empty()) {
            let at = format!("{TOKENS}, entry {}", all.len() + 1);
            let wrong = |why: &str| invalid(format!("{at}: {why}"));
            let (role, secret) = pair.split_once(':').ok_or_else(|| wrong("write it as role:token"))?;
            let role = Role::ALL.into_iter().find(|known| known.as_str() == role);
            let role = role.ok_or_else(|| wrong("the role must be view, work, operate or admin"))?;
            if secret.len() < SHORTEST_TOKEN || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
                let why = format!(
                    "a token has {SHORTEST_TOKEN} characters or more, all of them visible ASCII: make one with `openssl rand -hex 24`"
                );
                return Err(wrong(&why));
            }
            if all.iter().any(|known| known.secret == secret) {
                return Err(wrong("this token is there twice"));
            }
            let name = format!("{}-{}", role.as_str(), all.len() + 1);
            all.push(Token { secret: secret.to_owned(), role, name, bucket: rate.map(Bucket::new) });
        }
        if all.is_empty() || all.len() > MOST_TOKENS {
            return Err(invalid(format!(
                "--api needs 1 to {MOST_TOKENS} tokens in the environment variable {TOKENS}, each as role:token, such as \
                 work:$(openssl rand -hex 24); the roles are view, work, operate and admin"
            )));
        }
        Ok(Self { all, wrong: Mutex::default() })
    }

    /// The token of this header.
    pub(super) fn check(&self, header: &str, peer: IpAddr) -> Result<&Token, Closed> {
        let now = Instant::now();
        let (scheme, given) = header.split_once(' ').unwrap_or((header, ""));
        let given = given.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || given.is_empty() {
            return Err(Closed::NoToken);
        }
        // First: behind a proxy all have one address, and one that guesses shuts out no other. Nobody guesses so long a token.
        if let Some(token) = self.named(given) {
            return Ok(token);
        }
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        Err(if wrong.is_shut(peer, now) { Closed::TooOften } else { wrong.note(peer, given, now) })
    }

    /// In a time that says nothing of what the tokens are, nor of which it is.
    fn named(&self, given: &str) -> Option<&Token> {
        let mut found = u32::MAX;
        for (number, token) in (0..).zip(&self.all) {
            let is_it: Choice = token.secret.as_bytes().ct_eq(given.as_bytes());
            found.conditional_assign(&number, is_it);
        }
        self.all.get(found as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: &str = "0123456789abcdef01234567";
    const WORK: &str = "work:0123456789abcdef0123456789";
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn tokens() -> Tokens {
        Tokens::read(&format!("view:{VIEW}, {WORK}\n"), None).unwrap()
    }

    #[test]
    fn a_token_has_the_role_before_its_colon() {
        let tokens = tokens();
        let of = |header: &str| tokens.check(header, HERE).map(|token| (token.role, token.name.clone()));
        assert_eq!(of(&format!("Bearer {VIEW}")), Ok((Role::View, "view-1".to_owned())));
        assert_eq!(of("bearer 0123456789abcdef0123456789"), Ok((Role::Work, "work-2".to_owned())));
        for none in ["", "Bearer", "Bearer ", "Basic abc", VIEW] {
            assert_eq!(of(none), Err(Closed::NoToken), "{none}");
        }
        for wrong in [&VIEW[1..], WORK, "0123456789abcdef012345678", "ä"] {
            assert!(matches!(of(&format!("Bearer {wrong}")), Err(Closed::Wrong { .. })), "{wrong}");
        }
    }

    #[test]
    fn wrong_lists_of_tokens_are_refused_without_showing_one() {
        let secret = "secretsecretsecretsecret";
        for text in [
            String::new(),
            " , ".to_owned(),
            secret.to_owned(),
            format!("root:{secret}"),
            format!("View:{secret}"),
            format!("view:{}", &secret[1..]),
            format!("view:{secret}é"),
            format!("view:{secret} work:{secret}"),
        ] {
            let error = Tokens::read(&text, None).err().unwrap().to_string();
            assert!(error.contains(TOKENS) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn an_address_that_guesses_is_shut_out_and_a_right_token_is_not() {
        let tokens = tokens();
        let there = IpAddr::from([10, 0, 0, 7]);
        let good = format!("Bearer {VIEW}");
        for again in 0..100 {
            let closed = tokens.check("Bearer old", HERE).err();
            assert_eq!(closed, Some(Closed::Wrong { is_new: again == 0 }));
        }
        assert!(tokens.check(&good, HERE).is_ok());
        for number in 0..MOST_WRONG {
            assert!(tokens.check(&format!("Bearer {number}"), there).err().unwrap().is_new());
        }
        assert_eq!(tokens.check("Bearer another", there).err(), Some(Closed::TooOften));
        assert!(tokens.check(&good, there).is_ok(), "others may have this address, too");
        let later = Instant::now() + WRONG_WITHIN;
        assert!(!tokens.wrong.lock().unwrap().is_shut(there, later));
    }

    #[test]
    fn the_addresses_that_are_remembered_are_bounded() {
        let mut wrong = Wrong::default();
        for number in 0..3000_u32 {
            wrong.note(IpAddr::from(number.to_be_bytes()), "no", Instant::now());
        }
        assert_eq!(wrong.addresses.len(), MOST_ADDRESSES);
    }
}
