//! Which addresses a client may connect to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::{ConnectReason, HttpError, HttpUrl};

/// Which addresses a client may connect to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// All of them.
    #[default]
    Anywhere,
    /// Public addresses only: this machine, private networks and link-local addresses are refused, whether a URL
    /// contains the address or a host name resolves to it. A proxy's own connections are not checked, but addresses and
    /// local names in the URL are refused before the proxy is used.
    Public,
}

impl Reach {
    /// Refuses a URL with a forbidden address. Names are checked when they are resolved.
    pub(crate) fn check(self, url: &HttpUrl) -> Result<(), HttpError> {
        if self == Self::Anywhere {
            return Ok(());
        }
        let host = url.host();
        let address = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<IpAddr>();
        let refused = match address {
            Ok(address) => !is_public(address),
            Err(_name) => is_local_name(host),
        };
        if refused {
            return Err(HttpError::Connect {
                url: url.clone(),
                reason: ConnectReason::NotPublic(host.to_owned()),
            });
        }
        Ok(())
    }
}

/// A name that cannot be a public host, whatever it resolves to.
fn is_local_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    ["localhost", "local", "internal", "lan", "home.arpa"]
        .iter()
        .any(|suffix| {
            let rest = host.strip_suffix(suffix);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
}

/// Why a name was not resolved.
#[derive(Debug, thiserror::Error)]
#[error("`{host}` is at {address}, which is not public")]
pub(crate) struct Refused {
    pub(crate) host: String,
    pub(crate) address: IpAddr,
}

/// Resolves names, except those of proxies, to public addresses only.
#[derive(Debug)]
pub(crate) struct PublicResolver {
    pub(crate) proxies: Vec<String>,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let is_proxy = self.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(&host));
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            if is_proxy {
                return Ok(Box::new(found.into_iter()) as Addrs);
            }
            // A non-public address among them could be used for the next connection.
            if let Some(refused) = found.iter().find(|found| !is_public(found.ip())) {
                let address = refused.ip();
                return Err(Refused { host, address }.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Whether an address belongs to the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(address) => is_public_v4(address),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let special = match first {
        // This network, private networks, loopback, multicast and reserved ranges.
        0 | 10 | 127 | 224.. => true,
        // Carrier-grade NAT.
        100 => (64..128).contains(&second),
        169 => second == 254,
        172 => (16..32).contains(&second),
        // Protocol assignments, documentation, relays and private networks.
        192 => second == 168 || (second == 0 && matches!(third, 0 | 2)) || (second == 88 && third == 99),
        // Benchmarks and documentation.
        198 => matches!(second, 18 | 19) || (second == 51 && third == 100),
        203 => second == 0 && third == 113,
        _ => false,
    };
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Global unicast is 2000::/3. Teredo and the rest of 2001::/23 lead elsewhere; 2001:db8::/32 is for documentation.
    first & 0xe000 == 0x2000 && !(first == 0x2001 && (second < 0x0200 || second == 0x0db8)) && first != 0x3fff
}

/// The IPv4 address that a mapped or translated one contains.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| {
        let [first, second] = high.to_be_bytes();
        let [third, fourth] = low.to_be_bytes();
        Some(Ipv4Addr::new(first, second, third, fourth))
    };
    match address.segments() {
        // Mapped, translated and (formerly) compatible; `::` and `::1` also become special addresses.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // 6to4
        | [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_not_public() {
        for address in [
            "0.0.0.0",
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "100.64.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "64:ff9b:1::1",
            "100::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.1.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn urls_that_name_such_places_are_refused_unasked() {
        for url in [
            "http://127.0.0.1:1/",
            "http://[::1]/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://localhost/",
            "http://a.localhost/",
            "http://LOCALHOST./",
            "http://printer.local/",
            "http://metadata.google.internal/",
        ] {
            let url = HttpUrl::parse(url).unwrap();
            assert!(Reach::Public.check(&url).is_err(), "{url}");
            assert!(Reach::Anywhere.check(&url).is_ok(), "{url}");
        }
        for url in [
            "http://1.1.1.1/",
            "https://example.com/",
            "https://notlocal.example/",
            "https://mylocalhost.com/",
        ] {
            let url = HttpUrl::parse(url).unwrap();
            assert!(Reach::Public.check(&url).is_ok(), "{url}");
        }
    }
}
