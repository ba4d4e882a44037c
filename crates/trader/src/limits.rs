//! The limits of a trader: names, defaults, and the quantities that they bound.

macro_rules! limits {
    ($($name:ident = $default:literal, $text:literal;)*) => {
        /// The limits of a board and of the texts that it is given.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Limits {
            $(#[doc = $text] pub $name: u64,)*
        }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { $($name: $default,)* }
            }
        }

        impl Limits {
            /// All limits: name, default and text. A setting has the name with `trader.` in front.
            pub const TABLE: &[(&str, u64, &str)] = &[$((stringify!($name), $default, $text),)*];

            /// Returns a limit by its name.
            pub fn get(&self, name: &str) -> Option<u64> {
                match name { $(stringify!($name) => Some(self.$name),)* _ => None }
            }

            /// Sets a limit by its name; false if there is none of that name.
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name { $(stringify!($name) => self.$name = value,)* _ => return false }
                true
            }
        }
    };
}

limits! {
    offers_max = 100_000, "Offers of a board.";
    offers_role_max = 10_000, "Offers of a role.";
    offers_session_max = 100, "Offers of a session.";
    addresses_max = 8, "Addresses of an offer.";
    address_bytes_max = 256, "Bytes of an address.";
    service_bytes_max = 256, "Bytes of the name of a service.";
    object_bytes_max = 256, "Bytes of the name of an object at its server.";
    properties_max = 32, "Properties of an offer.";
    name_bytes_max = 64, "Bytes of the name of a property.";
    value_bytes_max = 256, "Bytes of the value of a property.";
    interface_bytes_max = 262_144, "Bytes of an interface.";
    interfaces_bytes_max = 67_108_864, "Bytes of all interfaces of a board.";
    supertypes_max = 64, "Names under which an offer is listed: its type and the supertypes of it.";
    interfaces_read_max = 16, "Interfaces that are kept in a form for comparisons; others are read again.";
    comparisons_max = 10_000, "Results of comparisons that are kept.";
    compared_max = 64, "New comparisons for one import.";
    lease_ms_min = 10_000, "The shortest lease, in milliseconds.";
    lease_ms_default = 15_000, "The lease of an offer that names none, in milliseconds.";
    lease_ms_max = 60_000, "The longest lease, in milliseconds.";
    query_bytes_max = 1_024, "Bytes of a query.";
    query_terms_max = 16, "Comparisons of a query.";
    most_default = 8, "Offers of an answer to an import that names no number.";
    most_max = 64, "Offers of an answer to an import.";
    looked_at_max = 10_000, "Offers that one import looks at.";
    waits_max = 10_000, "Calls of `changes` that wait.";
    waits_session_max = 100, "Calls of `changes` of a session that wait.";
    wait_ms_max = 60_000, "Milliseconds that a call of `changes` waits at most.";
    proofs_max = 64, "Offers that a trader dials at once.";
    proof_ms_max = 5_000, "Milliseconds that a proof may take; then it has failed.";
    links_max = 16, "Links of a trader.";
    link_ms_max = 1_000, "Milliseconds that an import waits for links.";
    link_rest_ms = 1_000, "Milliseconds for which a link that has failed is not asked.";
    link_sessions_max = 4, "Sessions with a linked trader: questions that it is asked at once.";
    gatherings_max = 1_000, "Imports that wait for links, and questions that wait for a session with one.";
    hops_default = 1, "Links that an import may follow which names no number.";
    hops_max = 3, "Links between an importer's trader and the last trader.";
    questions_max = 10_000, "Numbers of questions that a trader keeps.";
    question_ms = 30_000, "Milliseconds that the number of a question is kept.";
}

impl Limits {
    /// Returns the lease that an offer gets: the wanted one, within the bounds.
    pub fn lease_ms(&self, wanted: Option<u64>) -> u64 {
        let (min, max) = (self.lease_ms_min, self.lease_ms_max.max(self.lease_ms_min));
        wanted.unwrap_or(self.lease_ms_default).clamp(min, max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_found_by_name() {
        let mut limits = Limits::default();
        for (number, (name, default, text)) in (1..).zip(Limits::TABLE) {
            assert_eq!(limits.get(name), Some(*default), "{name}");
            assert!(limits.set(name, number) && text.ends_with('.'));
        }
        for (number, (name, ..)) in (1..).zip(Limits::TABLE) {
            assert_eq!(limits.get(name), Some(number), "each is a field of its own");
        }
        assert!(!limits.set("offers", 1));
        assert_eq!(limits.get("offers"), None);
    }

    #[test]
    fn leases_are_within_bounds() {
        let limits = Limits::default();
        let leases = [None, Some(0), Some(20_000), Some(u64::MAX)].map(|wanted| limits.lease_ms(wanted));
        assert_eq!(leases, [15_000, 10_000, 20_000, 60_000]);
    }
}
