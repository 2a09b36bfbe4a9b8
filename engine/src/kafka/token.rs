//! A token for OAUTHBEARER.

use std::fmt;

/// What a client shows to a broker that asks for OAUTHBEARER (RFC 7628):
/// [`Builder::oauth_token`](crate::Builder::oauth_token).
///
/// Its `Debug` shows neither the token nor the extensions.
#[derive(Clone, PartialEq, Eq)]
pub struct OauthToken {
    /// The token itself, as it goes over the wire.
    pub value: String,
    /// Whom it stands for.
    pub principal: String,
    /// When it ends, in milliseconds since 1970. The next one is asked for when 80 % of the time until then
    /// are over.
    pub lifetime_ms: i64,
    /// SASL extensions by name ([KIP-342]); mostly none.
    ///
    /// [KIP-342]: https://cwiki.apache.org/confluence/display/KAFKA/KIP-342%3A+Add+support+for+Custom+SASL+extensions+in+OAuthBearer+authentication
    pub extensions: Vec<(String, String)>,
}

impl fmt::Debug for OauthToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            principal,
            lifetime_ms,
            ..
        } = self;
        f.debug_struct("OauthToken")
            .field("principal", principal)
            .field("lifetime_ms", lifetime_ms)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_shown() {
        let token = OauthToken {
            value: "secret".to_owned(),
            principal: "orders".to_owned(),
            lifetime_ms: 7,
            extensions: vec![("key".to_owned(), "secret".to_owned())],
        };
        let shown = format!("{token:?} {token:#?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("orders"), "{shown}");
    }
}
