//! What those who look at the page may do.

/// What an action takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// To see queues, jobs, schedules and workers.
    View,
    /// To pause and resume, run jobs again or at another time, run schedules, set limits, keep a history.
    Operate,
    /// To destroy: cancel, purge, delete, remove schedules.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::View, Self::Operate, Self::Admin];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

/// The roles that somebody has; none unless they are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rights([bool; 3]);

impl Rights {
    pub(crate) const VIEW: Self = Self([true, false, false]);
    pub(crate) const ALL: Self = Self([true; 3]);

    /// Those of these names; others are none.
    pub fn of<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Self {
        let mut rights = Self::default();
        for name in names {
            for (role, has) in Role::ALL.iter().zip(&mut rights.0) {
                *has |= role.as_str() == name.as_ref();
            }
        }
        rights
    }

    pub(crate) fn has(self, role: Role) -> bool {
        self.0[role as usize]
    }

    /// More than to look?
    pub(crate) fn act(self) -> bool {
        self.has(Role::Operate) || self.has(Role::Admin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_a_role_that_was_not_given() {
        let has = |names: &[&str]| Role::ALL.map(|role| Rights::of(names).has(role));
        assert_eq!(has(&[]), [false; 3]);
        assert_eq!(has(&["View", "root", ""]), [false; 3]);
        assert_eq!(has(&["admin"]), [false, false, true]);
        assert_eq!(Rights::of(["view"]), Rights::VIEW);
        assert_eq!(Rights::of(["operate", "view", "admin"]), Rights::ALL);
        assert!(Rights::of(["operate"]).act() && !Rights::VIEW.act());
    }
}
